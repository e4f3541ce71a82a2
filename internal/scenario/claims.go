package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/engine"
)

// maxOffers bounds the devices for claims that one word makes.
const maxOffers = 256

// offer reads "gpu:8", or "gpu:8/2": so many devices, whose attribute root has so many values.
func offer(text string) (func(*machine, moment), error) {
	usage := fmt.Errorf("expected offer=SELECTION:COUNT, or SELECTION:COUNT/ROOTS")
	selection, rest, ok := strings.Cut(text, ":")
	count, roots, parted := strings.Cut(rest, "/")
	n, err := strconv.Atoi(count)
	if !ok || selection == "" || err != nil || n < 1 || n > maxOffers {
		return nil, usage
	}
	parts := 0
	if parted {
		if parts, err = strconv.Atoi(roots); err != nil || parts < 1 {
			return nil, usage
		}
	}
	return func(m *machine, _ moment) {
		m.Offers = slices.Clone(m.Offers)
		for i := range n {
			o := engine.Offer{ID: fmt.Sprintf("%s/%s-%d", m.Name, selection, i), Selections: []string{selection}}
			if parts > 0 {
				o.Attributes = map[string]string{"root": fmt.Sprint("root-", i*parts/n)}
			}
			m.Offers = append(m.Offers, o)
		}
	}, nil
}

// cards reads "2:8 whole=8 half=4,4": so many cards with so much of what their partitions share, and on each the partitions.
func cards(text string) (func(*machine, moment), error) {
	usage := fmt.Errorf(`expected cards="COUNT:AMOUNT SELECTION=AMOUNT,AMOUNT ..."`)
	words := strings.Fields(text)
	if len(words) < 2 {
		return nil, usage
	}
	count, amount, _ := strings.Cut(words[0], ":")
	n, err := strconv.Atoi(count)
	size, err2 := strconv.Atoi(amount)
	if err != nil || err2 != nil || n < 1 || n > maxDevices || size < 1 {
		return nil, usage
	}
	var parts []engine.Offer
	for _, word := range words[1:] {
		selection, draws, _ := strings.Cut(word, "=")
		for i, text := range strings.Split(draws, ",") {
			draw, err := strconv.Atoi(text)
			if err != nil || draw < 1 || len(parts) >= maxOffers/n {
				return nil, usage
			}
			parts = append(parts, engine.Offer{ID: fmt.Sprint(selection, "-", i), Selections: []string{selection}, Draws: []engine.Draw{{Amount: int64(draw)}}})
		}
	}
	return func(m *machine, _ moment) {
		m.Offers, m.Counters = slices.Clone(m.Offers), slices.Clone(m.Counters)
		for i := range n {
			card := fmt.Sprint("card-", i)
			m.Counters = append(m.Counters, engine.Counter{Name: card, Amount: int64(size)})
			for _, p := range parts {
				p.ID, p.Draws = fmt.Sprintf("%s/%s-%s", m.Name, card, p.ID), []engine.Draw{{Counter: card, Amount: p.Draws[0].Amount}}
				m.Offers = append(m.Offers, p)
			}
		}
	}, nil
}

// claim reads "2 gpu", "2 gpu or 4 half", "all gpu"; after "same" all devices agree in their attribute root, after "apart" none do.
// After "counted" they stand for resources that the pod requests too; with "beside" the GPUs that it requests are had by count.
func claim(text string) (func(*engine.Pod, moment), error) {
	usage := fmt.Errorf(`expected claim="COUNT SELECTION", "all SELECTION" or several with "or", and "same", "apart", "counted" or "beside" at the end`)
	text, beside := strings.CutSuffix(text, " beside")
	text, counted := strings.CutSuffix(text, " counted")
	rule := engine.DeviceAgreement{}
	if rest, ok := strings.CutSuffix(text, " same"); ok {
		text, rule.Attribute = rest, "root"
	} else if rest, ok := strings.CutSuffix(text, " apart"); ok {
		text, rule = rest, engine.DeviceAgreement{Attribute: "root", Distinct: true}
	}
	r := engine.DeviceRequest{Name: strings.ReplaceAll(text, " or ", "|")}
	for _, part := range strings.Split(text, " or ") {
		words := strings.Fields(part)
		if len(words) != 2 {
			return nil, usage
		}
		o := engine.DeviceOption{Selection: words[1], All: words[0] == "all"}
		if !o.All {
			n, err := strconv.Atoi(words[0])
			if err != nil || n < 1 {
				return nil, usage
			}
			o.Count = n
		}
		r.Options = append(r.Options, o)
	}
	return func(p *engine.Pod, _ moment) {
		all := engine.Claims{Counted: counted, GPUsByCount: beside}
		if p.Claims != nil {
			all.GPUsByCount = beside || p.Claims.GPUsByCount
			all.Requests, all.Match = slices.Clone(p.Claims.Requests), slices.Clone(p.Claims.Match)
		}
		mine := r
		mine.Options = slices.Clone(r.Options)
		if rule.Attribute != "" {
			for i := range mine.Options {
				mine.Options[i].Match = []int{len(all.Match)}
			}
			all.Match = append(all.Match, rule)
		}
		all.Requests = append(all.Requests, mine)
		p.Claims = &all
	}, nil
}
