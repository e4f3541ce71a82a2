package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/engine"
)

// policyFlags are who goes first, and who may be evicted for whom.
type policyFlags struct {
	policy           string
	heads            string
	halfLife, minRun time.Duration
	overtake         time.Duration
	rates            []string
	moves            string
	packing          string
}

// defaultPolicy are the flags as they are when nothing is given.
var defaultPolicy = policyFlags{policy: string(engine.Default), heads: "4", overtake: time.Hour, moves: movesOn, packing: string(engine.Priced)}

const (
	allHeads = "all"
	movesOn  = "on"
	movesOff = "off"
)

var packings = []string{string(engine.Priced), string(engine.Tight), string(engine.Loose), string(engine.LeastF)}

var policies = []string{string(engine.Default), string(engine.TimeShare), string(engine.FIFO), string(engine.Strict)}

func (p *policyFlags) flags(cmd *cobra.Command) {
	f, d := cmd.Flags(), &defaultPolicy
	f.StringVar(&p.policy, "policy", d.policy, "who goes first, and who is evicted for whom: "+oneOf(policies))
	f.StringVar(&p.heads, "backfill-heads", d.heads, "how many blocked workloads, first in line, have starts that others may not delay, or "+allHeads)
	f.DurationVar(&p.overtake, "overtake-for", d.overtake, "how long a blocked workload may be passed by others of its queue while its start is unknown; 0: for ever")
	f.DurationVar(&p.halfLife, "half-life", d.halfLife, "how fast what queues used stops counting against them (default: it does not count)")
	f.DurationVar(&p.minRun, "min-run-time", d.minRun, "how long work runs before it may be evicted for others, where its queue does not say (default: none)")
	f.StringSliceVar(&p.rates, "gpu-rate", nil, "how much one GPU of a model counts in queues' amounts, as MODEL=UNITS, such as H100=2 (default: 1)")
	f.StringVar(&p.moves, "moves", d.moves, "whether running work is moved so that gangs find a place: "+movesOn+", "+movesOff+", or GPU-seconds an hour that may be lost to moves nobody waits for")
	f.StringVar(&p.packing, "packing", d.packing, "which node a pod goes to of those that fit: where it costs later requests least, where least is left free, where most is, or where fragmentation grows least: "+oneOf(packings))
	cmd.RegisterFlagCompletionFunc("packing", cobra.FixedCompletions(packings, cobra.ShellCompDirectiveNoFileComp))
	cmd.RegisterFlagCompletionFunc("policy", cobra.FixedCompletions(policies, cobra.ShellCompDirectiveNoFileComp))
	cmd.RegisterFlagCompletionFunc("moves", cobra.FixedCompletions([]string{movesOn, movesOff}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RegisterFlagCompletionFunc("backfill-heads", cobra.FixedCompletions([]string{allHeads}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RegisterFlagCompletionFunc("gpu-rate", cobra.NoFileCompletions)
}

func oneOf(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// config adds the flags to what the engine is told.
func (p *policyFlags) config(c engine.Config) (engine.Config, error) {
	c.Policy, c.HalfLife, c.MinRun, c.Packing = engine.Policy(p.policy), p.halfLife, p.minRun, engine.Packing(p.packing)
	switch {
	case !slices.Contains(policies, p.policy):
		return c, fmt.Errorf("--policy %q: choose %s", p.policy, oneOf(policies))
	case !slices.Contains(packings, p.packing):
		return c, fmt.Errorf("--packing %q: choose %s", p.packing, oneOf(packings))
	case p.overtake < 0:
		return c, fmt.Errorf("--overtake-for %s: give a time, such as 1h, or 0", p.overtake)
	case p.halfLife < 0:
		return c, fmt.Errorf("--half-life %s: give a time, such as 168h, or 0", p.halfLife)
	case p.minRun < 0:
		return c, fmt.Errorf("--min-run-time %s: give a time, such as 10m, or 0", p.minRun)
	}
	if c.Overtake = p.overtake; c.Overtake == 0 {
		c.Overtake = -1
	}
	if err := p.setHeads(&c); err != nil {
		return c, err
	}
	if err := p.setRates(&c); err != nil {
		return c, err
	}
	return c, p.setMoves(&c)
}

func (p *policyFlags) setHeads(c *engine.Config) error {
	if p.heads == allHeads {
		c.Heads = -1
		return nil
	}
	n, err := strconv.Atoi(p.heads)
	if err != nil || n < 1 {
		return fmt.Errorf("--backfill-heads %q: give a number from 1, or %s", p.heads, allHeads)
	}
	c.Heads = n
	return nil
}

func (p *policyFlags) setRates(c *engine.Config) error {
	seen := make(map[string]bool)
	for _, word := range p.rates {
		model, units, _ := strings.Cut(word, "=")
		n, err := strconv.ParseInt(units, 10, 64)
		switch {
		case model == "" || err != nil || n < 1 || n > 1000:
			return fmt.Errorf("--gpu-rate %q: write MODEL=UNITS with 1 to 1000 units, such as H100=2", word)
		case seen[model]:
			return fmt.Errorf("--gpu-rate %q: %s is given twice", word, model)
		}
		seen[model] = true
		c.Rates = append(c.Rates, engine.Rate{Model: model, Units: n})
	}
	return nil
}

func (p *policyFlags) setMoves(c *engine.Config) error {
	switch p.moves {
	case movesOn:
	case movesOff:
		c.Moves.Off = true
	default:
		n, err := strconv.ParseInt(p.moves, 10, 64)
		if err != nil || n < 1 {
			return fmt.Errorf("--moves %q: choose %s, %s, or give a number of GPU-seconds an hour", p.moves, movesOn, movesOff)
		}
		c.Moves.Background = n
	}
	return nil
}

// args are the flags again, as far as they are not as they would be anyway.
func (p *policyFlags) args() []string {
	var out []string
	add := func(flag, value, usual string) {
		if value != usual {
			out = append(out, flag, value)
		}
	}
	d := &defaultPolicy
	add("--policy", p.policy, d.policy)
	add("--backfill-heads", p.heads, d.heads)
	add("--overtake-for", p.overtake.String(), d.overtake.String())
	add("--half-life", p.halfLife.String(), d.halfLife.String())
	add("--min-run-time", p.minRun.String(), d.minRun.String())
	for _, r := range p.rates {
		out = append(out, "--gpu-rate", r)
	}
	add("--moves", p.moves, d.moves)
	add("--packing", p.packing, d.packing)
	return out
}
