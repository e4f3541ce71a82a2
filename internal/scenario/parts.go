package scenario

import (
	"fmt"
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
