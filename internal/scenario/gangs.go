package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine"
)

// gang reads "gang team/a min=8 size=8 queue=q required=rack ...".
func gang(names string, words []string) (func(*world) error, error) {
	list, err := expand(names)
	if err != nil {
		return nil, err
	}
	values := merge(groupValues(func(g *engine.Gang) *engine.Group { return &g.Group }), terms(func(g *engine.Gang) *engine.Terms { return &g.Terms }), map[string]reader[engine.Gang]{
		"queue":    word(func(g *engine.Gang, v string) { g.Queue = v }),
		"user":     word(func(g *engine.Gang, v string) { g.User = v }),
		"core":     no(func(g *engine.Gang) *bool { return &g.Core }),
		"priority": number(func(g *engine.Gang, n int) { g.Priority = int32(n) }),
		"created":  when(func(g *engine.Gang, t time.Time) { g.Created = t }),
	})
	flags := merge(groupFlags(func(g *engine.Gang) *engine.Group { return &g.Group }), map[string]func(*engine.Gang, moment){
		"core":    yes(func(g *engine.Gang) *bool { return &g.Core }),
		"patient": yes(func(g *engine.Gang) *bool { return &g.Terms.Patient }),
		"held":    yes(func(g *engine.Gang) *bool { return &g.Terms.Held }),
	})
	edits, err := setters[engine.Gang]{flags: flags, values: values}.parse(words)
	if err != nil {
		return nil, err
	}
	return func(w *world) error {
		for i, n := range list {
			g, ok := w.gangs[n.text]
			if !ok {
				g = engine.Gang{Key: n.text, Created: w.now}
			}
			for _, set := range edits {
				set(&g, moment{w.now, i, len(list)})
			}
			w.gangs[n.text] = g
			w.touch(engine.KindGang, n.text)
		}
		return nil
	}, nil
}

// group reads "group team/a prefill-[0-1] parent=... min=2 required=rack ...".
func group(gangKey string, words []string) (func(*world) error, error) {
	if len(words) == 0 {
		return nil, fmt.Errorf("expected group GANG NAMES and what it asks for")
	}
	names, err := texts(words[0])
	if err != nil {
		return nil, err
	}
	self := func(g *engine.Group) *engine.Group { return g }
	values := merge(groupValues(self), map[string]reader[engine.Group]{
		"parent": word(func(g *engine.Group, v string) { g.Parent = v }),
	})
	edits, err := setters[engine.Group]{flags: groupFlags(self), values: values}.parse(words[1:])
	if err != nil {
		return nil, err
	}
	return func(w *world) error {
		g, ok := w.gangs[gangKey]
		if !ok {
			return fmt.Errorf("%s: expected a gang that exists", gangKey)
		}
		g.Groups = slices.Clone(g.Groups)
		for i, n := range names {
			at := slices.IndexFunc(g.Groups, func(x engine.Group) bool { return x.Name == n })
			if at < 0 {
				at = len(g.Groups)
				g.Groups = append(g.Groups, engine.Group{Name: n})
			}
			for _, set := range edits {
				set(&g.Groups[at], moment{w.now, i, len(names)})
			}
		}
		w.gangs[gangKey] = g
		w.touch(engine.KindGang, gangKey)
		return nil
	}, nil
}

// groupValues is what gangs and their groups have in common.
func groupValues[T any](of func(*T) *engine.Group) map[string]reader[T] {
	layout := func(t *T) *engine.Layout { return &of(t).Layout }
	return map[string]reader[T]{
		"min":        number(func(t *T, n int) { of(t).Min = n }),
		"size":       number(func(t *T, n int) { of(t).Size = n }),
		"min-groups": number(func(t *T, n int) { of(t).MinGroups = n }),
		"whole":      no(func(t *T) *bool { return &of(t).Whole }),
		"each":       no(func(t *T) *bool { return &of(t).Each }),
		"required":   word(func(t *T, v string) { layout(t).Required = v }),
		"preferred":  word(func(t *T, v string) { layout(t).Preferred = v }),
		"spread":     word(func(t *T, v string) { layout(t).Spread = v }),
		"segment":    parsed(segment, func(t *T, s engine.Layout) { layout(t).Segment, layout(t).SegmentLevel = s.Segment, s.SegmentLevel }),
	}
}

func groupFlags[T any](of func(*T) *engine.Group) map[string]func(*T, moment) {
	return map[string]func(*T, moment){
		"balanced":    func(t *T, _ moment) { of(t).Layout.Balanced = true },
		"whole":       yes(func(t *T) *bool { return &of(t).Whole }),
		"each":        yes(func(t *T) *bool { return &of(t).Each }),
		"whole-nodes": func(t *T, _ moment) { of(t).Layout.WholeNodes = true },
	}
}

// segment reads "4@rack".
func segment(text string) (engine.Layout, error) {
	n, level, _ := strings.Cut(text, "@")
	size, err := whole(n)
	if err != nil || level == "" {
		return engine.Layout{}, fmt.Errorf("expected SIZE@LEVEL, like 4@rack")
	}
	return engine.Layout{Segment: size, SegmentLevel: level}, nil
}
