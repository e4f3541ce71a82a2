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
	if verb == "rate" {
		return rate(c, args)
	}
	if verb == "moves" {
		return moves(c, args)
	}
	if len(args) != 1 {
		return fmt.Errorf("%s: expected level NAME LABEL, shape ..., rate MODEL UNITS, moves ..., or one of packing, policy, heads, overtake, half-life, min-run, gang-grace, restart, gpu, assume-for, search-budget, classes and a value", verb)
	}
	var err error
	switch verb {
	case "packing":
		c.Packing = engine.Packing(args[0])
	case "policy":
		c.Policy = engine.Policy(args[0])
	case "heads":
		c.Heads, err = whole(args[0])
	case "overtake":
		c.Overtake, err = time.ParseDuration(args[0])
	case "half-life":
		c.HalfLife, err = time.ParseDuration(args[0])
	case "min-run":
		c.MinRun, err = time.ParseDuration(args[0])
	case "gang-grace":
		c.GangGrace, err = time.ParseDuration(args[0])
	case "restart":
		c.Restart, err = time.ParseDuration(args[0])
	case "gpu":
		c.GPU = args[0]
	case "assume-for":
		c.AssumeFor, err = time.ParseDuration(args[0])
	case "search-budget":
		c.SearchBudget, err = whole(args[0])
	case "classes":
		c.Classes, err = whole(args[0])
	default:
		return fmt.Errorf("%s: expected level, packing, policy, heads, overtake, half-life, min-run, gang-grace, restart, rate, moves, gpu, shape, assume-for, search-budget or classes", verb)
	}
	return err
}

// rate reads "rate H100 2".
func rate(c *engine.Config, words []string) error {
	if len(words) != 2 {
		return fmt.Errorf("expected rate MODEL UNITS")
	}
	n, err := whole(words[1])
	c.Rates = append(c.Rates, engine.Rate{Model: words[0], Units: int64(n)})
	return err
}

// moves reads "moves off" and "moves background 3600".
func moves(c *engine.Config, words []string) error {
	switch {
	case len(words) == 1 && words[0] == "off":
		c.Moves.Off = true
		return nil
	case len(words) == 2 && words[0] == "background":
		n, err := whole(words[1])
		c.Moves.Background = int64(n)
		return err
	}
	return fmt.Errorf("expected moves off, or moves background GPU-SECONDS")
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
