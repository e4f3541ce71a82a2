package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine"
)

// queue reads "queue q parent=all quota=gpus=8 gpus=16 weight=2 namespaces=team,ops ...": amounts by themselves are
// limits; namespaces=none is nobody.
func (s *Story) queue(names string, words []string) (func(*world) error, error) {
	list, err := expand(names)
	if err != nil {
		return nil, err
	}
	edits, err := s.queueSetters().parse(words)
	if err != nil {
		return nil, err
	}
	return func(w *world) error {
		for i, n := range list {
			q := w.queues[n.text]
			q.Name = n.text
			for _, set := range edits {
				set(&q, moment{w.now, i, len(list)})
			}
			w.queues[n.text] = q
			w.touch(engine.KindQueue, n.text)
		}
		return nil
	}, nil
}

func (s *Story) queueSetters() setters[engine.Queue] {
	limits := func(q *engine.Queue) *engine.Resources { return &q.Limits }
	fair := func(q *engine.Queue) *bool { return &q.FairUsers }
	kept := func(q *engine.Queue) *bool { return &q.KeepBudgets }
	strict := func(q *engine.Queue) *bool { return &q.Strict }
	frozen := func(q *engine.Queue) *bool { return &q.Frozen }
	keeps := func(q *engine.Queue) *bool { return &q.Keeps }
	devices := func(q *engine.Queue) *bool { return &q.DevicesOnly }
	first := func(q *engine.Queue) *bool { return &q.QuotaFirst }
	return setters[engine.Queue]{
		flags: map[string]func(*engine.Queue, moment){"fair-users": yes(fair), "keep-budgets": yes(kept), "devices-only": yes(devices), "frozen": yes(frozen), "keeps": yes(keeps), "strict": yes(strict), "quota-first": yes(first)},
		values: map[string]reader[engine.Queue]{
			"parent":        word(func(q *engine.Queue, v string) { q.Parent = v }),
			"quota":         amounts(&s.Config, func(q *engine.Queue) *engine.Resources { return &q.Quota }),
			"limit":         amounts(&s.Config, limits),
			"lend":          amounts(&s.Config, func(q *engine.Queue) *engine.Resources { return &q.Lend }),
			"user-limit":    amounts(&s.Config, func(q *engine.Queue) *engine.Resources { return &q.UserLimits }),
			"weight":        number(func(q *engine.Queue, n int) { q.Weight = int64(n) }),
			"priority":      number(func(q *engine.Queue, n int) { q.Priority = int32(n) }),
			"max-running":   number(func(q *engine.Queue, n int) { q.MaxRunning = n }),
			"fair-users":    no(fair),
			"budget":        listed(s.budget, func(q *engine.Queue) *[]engine.Budget { return &q.Budgets }),
			"packing":       word(func(q *engine.Queue, v string) { q.Packing = engine.Packing(v) }),
			"parts-by":      word(func(q *engine.Queue, v string) { q.PartsBy = engine.PartsBy(v) }),
			"min-run":       span(func(q *engine.Queue, d time.Duration) { q.MinRun = d }),
			"warning":       span(func(q *engine.Queue, d time.Duration) { q.Warning = d }),
			"promote-after": span(func(q *engine.Queue, d time.Duration) { q.PromoteAfter = d }),
			"reclaim-idle":  span(func(q *engine.Queue, d time.Duration) { q.ReclaimIdle = d }),
			"keep-budgets":  no(kept),
			"frozen":        no(frozen),
			"keeps":         no(keeps),
			"strict":        no(strict),
			"stop":          word(func(q *engine.Queue, v string) { q.Stop = engine.Stop(v) }),
			"devices-only":  no(devices),
			"flavors":       listed(s.flavors, func(q *engine.Queue) *[]engine.FlavorGroup { return &q.Flavors }),
			"quota-first":   no(first),
			"namespaces": word(func(q *engine.Queue, v string) {
				switch v {
				case "":
					q.Namespaces = nil
				case "none":
					q.Namespaces = []string{}
				default:
					q.Namespaces = strings.Split(v, ",")
				}
			}),
		},
		other: resources(&s.Config, limits),
	}
}

// budget reads "gpus=100h/24h": so much of the resource, held for so long, in every period from the story's start on.
func (s *Story) budget(text string) (engine.Budget, error) {
	short, rest, _ := strings.Cut(text, "=")
	resource, ok := resourceName(short, &s.Config)
	amount, period, _ := strings.Cut(rest, "/")
	spent, err1 := time.ParseDuration(amount)
	every, err2 := time.ParseDuration(period)
	if !ok || err1 != nil || err2 != nil {
		return engine.Budget{}, fmt.Errorf("expected RESOURCE=TIME/PERIOD, like gpus=100h/24h")
	}
	b := engine.Budget{Resource: resource, Seconds: int64(spent / time.Second), Period: every, From: startTime}
	if resource == engine.CPU {
		b.Seconds *= 1000
	}
	return b, nil
}

// flavors reads "gpus+cpu:reserved(type=reserved)/spot(type=spot;zone=a)/any": resources, and flavors in order with their labels.
func (s *Story) flavors(text string) (g engine.FlavorGroup, err error) {
	covers, rest, _ := strings.Cut(text, ":")
	for _, short := range strings.Split(covers, "+") {
		name, ok := resourceName(short, &s.Config)
		if !ok {
			return g, fmt.Errorf("expected RESOURCE+RESOURCE:FLAVOR(KEY=VALUE)/FLAVOR, like gpus:spot(type=spot)/any")
		}
		g.Resources = append(g.Resources, name)
	}
	slices.Sort(g.Resources)
	for _, one := range strings.Split(rest, "/") {
		name, labels, _ := strings.Cut(strings.TrimSuffix(one, ")"), "(")
		f := engine.Flavor{Name: name}
		for _, label := range strings.Split(labels, ";") {
			if key, value, ok := strings.Cut(label, "="); ok {
				if f.Labels == nil {
					f.Labels = make(map[string]string)
				}
				f.Labels[key] = value
			}
		}
		g.Flavors = append(g.Flavors, f)
	}
	return g, nil
}

// disruption reads "disruption team/pdb allowed=1".
func disruption(names string, words []string) (func(*world) error, error) {
	list, err := texts(names)
	if err != nil {
		return nil, err
	}
	edits, err := setters[engine.Disruption]{values: map[string]reader[engine.Disruption]{
		"allowed": number(func(d *engine.Disruption, n int) { d.Allowed = n }),
	}}.parse(words)
	if err != nil {
		return nil, err
	}
	return func(w *world) error {
		for i, key := range list {
			d := w.disruptions[key]
			d.Key = key
			for _, set := range edits {
				set(&d, moment{w.now, i, len(list)})
			}
			w.disruptions[key] = d
			w.touch(engine.KindDisruption, key)
		}
		return nil
	}, nil
}

// booking reads "booking NAME queue=q nodes=n[0-3] from=+1h to=+2h".
func booking(name string, words []string) (func(*world) error, error) {
	edits, err := setters[engine.Booking]{values: map[string]reader[engine.Booking]{
		"queue": word(func(b *engine.Booking, v string) { b.Queue = v }),
		"nodes": parsed(nameList, func(b *engine.Booking, v []string) { b.Nodes = v }),
		"from":  when(func(b *engine.Booking, t time.Time) { b.From = t }),
		"to":    when(func(b *engine.Booking, t time.Time) { b.To = t }),
	}}.parse(words)
	if err != nil {
		return nil, err
	}
	return func(w *world) error {
		b := w.bookings[name]
		b.Name = name
		for _, set := range edits {
			set(&b, moment{now: w.now})
		}
		w.bookings[name] = b
		w.touch(engine.KindBooking, name)
		return nil
	}, nil
}
