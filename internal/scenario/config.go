package scenario

import (
	"fmt"
	"time"

	"github.com/berth-dev/berth/engine"
)

// configure reads one line of the config section.
func configure(c *engine.Config, words []string) error {
	verb, args := words[0], words[1:]
	if verb == "shape" {
		return shape(c, args)
	}
	if verb == "level" {
		if len(args) != 2 {
			return fmt.Errorf("expected level NAME LABEL")
		}
		c.Levels = append(c.Levels, engine.Level{Name: args[0], Label: args[1]})
		return nil
	}
	if len(args) != 1 {
		return fmt.Errorf("%s: expected level NAME LABEL, shape ..., or one of packing, gpu, assume-for, search-budget, classes and a value", verb)
	}
	var err error
	switch verb {
	case "packing":
		c.Packing = engine.Packing(args[0])
	case "gpu":
		c.GPU = args[0]
	case "assume-for":
		c.AssumeFor, err = time.ParseDuration(args[0])
	case "search-budget":
		c.SearchBudget, err = whole(args[0])
	case "classes":
		c.Classes, err = whole(args[0])
	default:
		return fmt.Errorf("%s: expected level, packing, gpu, shape, assume-for, search-budget or classes", verb)
	}
	return err
}

// shape reads "shape gpus=1 cpu=4 weight=10".
func shape(c *engine.Config, words []string) error {
	s := engine.Shape{Weight: 1}
	table := setters[engine.Shape]{
		values: map[string]func(string) (func(*engine.Shape, moment), error){
			"weight": number(func(s *engine.Shape, n int) { s.Weight = int64(n) }),
		},
		other: resources(c, func(s *engine.Shape) *engine.Resources { return &s.Requests }),
	}
	edits, err := table.parse(words)
	if err != nil {
		return err
	}
	for _, set := range edits {
		set(&s, moment{})
	}
	c.Workload = append(c.Workload, s)
	return nil
}
