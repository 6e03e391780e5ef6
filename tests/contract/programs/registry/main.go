// A registry of images in memory: CNCF Distribution with the configuration that its argument names.
package main

import (
	"context"
	"log"
	"os"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry"
	_ "github.com/distribution/distribution/v3/registry/auth/token"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory"
)

func main() {
	file, err := os.Open(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	settings, err := configuration.Parse(file)
	if err != nil {
		log.Fatal(err)
	}
	made, err := registry.NewRegistry(context.Background(), settings)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(made.ListenAndServe())
}
