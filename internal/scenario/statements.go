package scenario

import (
	"fmt"
	"maps"
	"slices"

	"github.com/berth-dev/berth/engine"
)

// statement reads one line of a change: a verb, whom it is about, and attributes.
func (s *Story) statement(words []string) (func(*world) error, error) {
	verb := words[0]
	if verb == "leave" && len(words) == 1 {
		return leave(""), nil
	}
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
	case "disruption", "disruptions":
		return disruption(subject, rest)
	case "booking":
		return booking(subject, rest)
	case "eviction":
		return eviction(subject, rest)
	case "promise":
		return promise(subject, rest)
	case "usage":
		return usage(subject, rest)
	case "degradation":
		return degradation(subject, rest)
	case "run-time-estimate":
		return runTimeEstimate(subject, rest)
	case "end", "leave":
		return names(verb, words[1:])
	}
	return nil, fmt.Errorf("%s: expected nodes, pods, gang, group, queue, disruption, booking, cordon, uncordon, lose, twin, gone, end, leave, "+
		"refuse, hold, eviction, promise, usage, degradation or run-time-estimate", verb)
}

// gone reads "gone pod team/a-[0-1]", and of memory "gone refusal POD@NODE".
func gone(kind string, words []string) (func(*world) error, error) {
	kinds := []engine.Kind{
		engine.KindNode, engine.KindPod, engine.KindGang, engine.KindQueue,
		engine.KindDisruption, engine.KindBooking, engine.KindAssumption, engine.KindRefusal, engine.KindHold,
		engine.KindEviction, engine.KindPromise, engine.KindUsage, engine.KindRunTimeEstimate, engine.KindDegradation,
	}
	if !slices.Contains(kinds, engine.Kind(kind)) || len(words) != 1 {
		return nil, fmt.Errorf("gone %s: expected gone KIND NAMES, of the kinds %v", kind, kinds)
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

// names reads "end KEYS" and "leave KEYS".
func names(verb string, words []string) (func(*world) error, error) {
	if len(words) != 1 {
		return nil, fmt.Errorf("expected %s KEYS", verb)
	}
	keys, err := texts(words[0])
	if err != nil {
		return nil, err
	}
	do := end
	if verb == "leave" {
		do = leave
	}
	return func(w *world) error {
		for _, key := range keys {
			if err := do(key)(w); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// end lets a gang with all its members, or a pod, finish and be gone.
func end(key string) func(*world) error {
	return func(w *world) error {
		_, isGang := w.gangs[key]
		_, isPod := w.pods[key]
		if !isGang && !isPod {
			return fmt.Errorf("%s: expected a gang or a pod that exists", key)
		}
		for _, pod := range slices.Sorted(maps.Keys(w.pods)) {
			if pod == key || isGang && w.pods[pod].Gang == key {
				if err := w.remove(engine.KindPod, pod); err != nil {
					return err
				}
			}
		}
		if isGang {
			return w.remove(engine.KindGang, key)
		}
		return nil
	}
}

// leave lets terminating pods end, and come back as their controller makes them: under the same key, new, and
// waiting. Of all pods ("") it is those whose release has come.
func leave(key string) func(*world) error {
	return func(w *world) error {
		keys := []string{key}
		if key == "" {
			keys = slices.Sorted(maps.Keys(w.pods))
		}
		for _, k := range keys {
			p, ok := w.pods[k]
			switch {
			case ok && p.Terminating && (key != "" || !p.ReleaseAt.After(w.now)):
				if _, followed := w.pods[k+next]; followed {
					_ = w.remove(engine.KindPod, k)
					continue
				}
				w.again(p)
			case key != "":
				return fmt.Errorf("%s: expected a pod that is terminating", key)
			}
		}
		return nil
	}
}
