// Reads an OpenVEX document as scanners do, and fails where it or a statement of it is not valid.
package main

import (
	"log"
	"os"

	"github.com/openvex/go-vex/pkg/vex"
)

func main() {
	document, err := vex.Open(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	if document.Context != vex.ContextLocator() {
		log.Fatalf("@context is %s, not %s", document.Context, vex.ContextLocator())
	}
	for _, statement := range document.Statements {
		if err := statement.Validate(); err != nil {
			log.Fatal(err)
		}
		if len(statement.Products) == 0 {
			log.Fatalf("%s names no product", statement.Vulnerability.Name)
		}
	}
}
