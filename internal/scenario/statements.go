package scenario

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-dev/berth/engine"
)

// statement reads one line of a change: a verb, whom it is about, and attributes.
func (s *Story) statement(words []string) (func(*world) error, error) {
	verb := words[0]
	if len(words) < 2 {
		return nil, fmt.Errorf("%s: expected a name after it", verb)
	}
	subject, rest := words[1], words[2:]
	switch verb {
	case "node", "nodes":
		return s.nodes(subject, rest)
	case "pod", "pods":
		return s.podLines(subject, rest)
	case "gang", "gangs":
		return gang(subject, rest)
	case "group", "groups":
		return group(subject, rest)
	case "queue", "queues":
		return s.queue(subject, rest)
	case "twin":
		return s.twin(subject, rest)
	case "cordon":
		return cordon(words[1:], true)
	case "uncordon":
		return cordon(words[1:], false)
	case "lose":
		return s.lose(words[1:])
	case "gone":
		return gone(subject, rest)
	case "refuse":
		return refuse(subject, rest)
	case "hold":
		return s.hold(subject, rest)
	}
	return nil, fmt.Errorf("%s: expected nodes, pods, gang, group, queue, cordon, uncordon, lose, twin, gone, refuse or hold", verb)
}

// gone reads "gone pod team/a-[0-1]", and of memory "gone refusal POD@NODE".
func gone(kind string, words []string) (func(*world) error, error) {
	kinds := []engine.Kind{
		engine.KindNode, engine.KindPod, engine.KindGang, engine.KindQueue,
		engine.KindAssumption, engine.KindRefusal, engine.KindHold,
	}
	if !slices.Contains(kinds, engine.Kind(kind)) || len(words) != 1 {
		return nil, fmt.Errorf("gone %s: expected gone node|pod|gang|queue|assumption|refusal|hold NAMES", kind)
	}
	names, err := texts(words[0])
	if err != nil {
		return nil, err
	}
	return func(w *world) error {
		for _, n := range names {
			if err := w.remove(engine.Kind(kind), n); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// refuse reads "refuse POD NODE REASON until=+30s".
func refuse(pod string, words []string) (func(*world) error, error) {
	if len(words) != 3 {
		return nil, fmt.Errorf("expected refuse POD NODE REASON until=+30s")
	}
	until, err := setters[engine.Refusal]{values: map[string]reader[engine.Refusal]{
		"until": when(func(r *engine.Refusal, t time.Time) { r.Until = t }),
	}}.one(words[2])
	if err != nil {
		return nil, err
	}
	return func(w *world) error {
		r := engine.Refusal{Pod: pod, UID: w.pods[pod].UID, Node: words[0], Reason: words[1]}
		until(&r, moment{now: w.now})
		w.memory = append(w.memory, engine.Change{Refusal: &r})
		return nil
	}, nil
}

// hold reads "hold GANG NODE gpus=8 until=+60s".
func (s *Story) hold(gang string, words []string) (func(*world) error, error) {
	if len(words) < 2 {
		return nil, fmt.Errorf("expected hold GANG NODE gpus=8 until=+60s")
	}
	edits, err := setters[engine.Hold]{
		values: map[string]reader[engine.Hold]{"until": when(func(h *engine.Hold, t time.Time) { h.Until = t })},
		other:  resources(&s.Config, func(h *engine.Hold) *engine.Resources { return &h.Requests }),
	}.parse(words[1:])
	if err != nil {
		return nil, err
	}
	return func(w *world) error {
		h := engine.Hold{Gang: gang, Node: words[0]}
		for _, set := range edits {
			set(&h, moment{now: w.now})
		}
		w.memory = append(w.memory, engine.Change{Hold: &h})
		return nil
	}, nil
}
