package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/engine"
)

// card reads "81920", or "81920/10": the MiB of each GPU, and how many pods may have a part of it.
func card(text string) (func(*machine, moment), error) {
	size, most, shared := strings.Cut(text, "/")
	memory, err := strconv.Atoi(size)
	parts := 0
	if shared && err == nil {
		parts, err = strconv.Atoi(most)
	}
	if err != nil || memory < 1 || shared && parts < 1 {
		return nil, fmt.Errorf("expected card=MIB, or MIB/PODS")
	}
	return func(m *machine, _ moment) { m.memory, m.parts, m.stale = memory, parts, true }, nil
}

// slice reads "gpus:250" or "nvidia.com/mig-3g.40gb:500,428": one of the resource is so many thousandths of a GPU, of its memory and of its
// compute.
func (s *Story) slice(text string) (func(*machine, moment), error) {
	name, shares, _ := strings.Cut(text, ":")
	memory, compute, both := strings.Cut(shares, ",")
	if !both {
		compute = memory
	}
	resource, known := resourceName(name, &s.Config)
	of, err1 := strconv.ParseInt(memory, 10, 64)
	run, err2 := strconv.ParseInt(compute, 10, 64)
	if !known {
		resource = name
	}
	if resource == "" || err1 != nil || err2 != nil {
		return nil, fmt.Errorf("expected slice=RESOURCE:THOUSANDTHS, or RESOURCE:MEMORY,COMPUTE")
	}
	return func(m *machine, _ moment) {
		m.Slices = slices.DeleteFunc(slices.Clone(m.Slices), func(s engine.Slice) bool { return s.Resource == resource })
		m.Slices = append(m.Slices, engine.Slice{Resource: resource, Memory: of, Compute: run})
		slices.SortFunc(m.Slices, func(a, b engine.Slice) int { return strings.Compare(a.Resource, b.Resource) })
	}, nil
}

// part reads "20000" (MiB of a GPU) or "50%" (of its memory), and after it "compute=30%" and "cards=2".
func part(text string) (func(*engine.Pod, moment), error) {
	usage := fmt.Errorf(`expected part="MIB" or "N%%", and after it compute=N%% and cards=N`)
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil, usage
	}
	out := engine.Part{Cards: 1}
	var err error
	if strings.HasSuffix(words[0], "%") {
		out.Share, err = thousandths(words[0])
	} else {
		out.Memory, err = strconv.ParseInt(words[0], 10, 64)
	}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		var wrong error
		switch key {
		case "compute":
			out.Compute, wrong = thousandths(value)
		case "cards":
			out.Cards, wrong = strconv.Atoi(value)
		default:
			return nil, usage
		}
		if wrong != nil {
			err = wrong
		}
	}
	if err != nil {
		return nil, usage
	}
	return func(p *engine.Pod, _ moment) { own := out; p.Part = &own }, nil
}

// thousandths reads "30%", or "12.5%".
func thousandths(text string) (int64, error) {
	v, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	return int64(v*10 + 0.5), err
}
