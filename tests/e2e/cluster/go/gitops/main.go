// Prints what tools of GitOps make of objects: kstatus, and the expressions of a Flux health check in the order that Flux has.
//
// Standard input is JSON: the objects, and the expressions by their names. Each line of the output is about one object.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

type asked struct {
	Objects     []json.RawMessage `json:"objects"`
	Expressions map[string]string `json:"expressions"`
}

func main() {
	var input asked
	if err := json.NewDecoder(os.Stdin).Decode(&input); err != nil {
		log.Fatal(err)
	}
	for _, raw := range input.Objects {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(raw); err != nil {
			log.Fatal(err)
		}
		computed, err := status.Compute(object)
		if err != nil {
			log.Fatal(err)
		}
		line, err := json.Marshal(map[string]string{"kstatus": string(computed.Status), "flux": health(object.Object, input.Expressions)})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(line))
	}
}

// health is the first of the three whose expression is true, as RFC 0009 of Flux orders them; "error" where one has no value.
func health(object map[string]any, expressions map[string]string) string {
	for _, each := range []struct{ name, health string }{
		{"inProgress", "InProgress"}, {"failed", "Failed"}, {"current", "Current"},
	} {
		env, err := cel.NewEnv(cel.OptionalTypes())
		if err != nil {
			log.Fatal(err)
		}
		parsed, issues := env.Parse(expressions[each.name])
		if issues != nil {
			log.Fatal(issues)
		}
		program, err := env.Program(parsed)
		if err != nil {
			log.Fatal(err)
		}
		value, _, err := program.Eval(object)
		if err != nil {
			return "error"
		}
		if value.Value() == true {
			return each.health
		}
	}
	return "InProgress"
}
