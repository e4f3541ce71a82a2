package scenario

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

// podLines reads "pods team/a-[0-7] gang=team/a gpus=1 ...": new pods, or edits of those that exist.
func (s *Story) podLines(names string, words []string) (func(*world) error, error) {
	list, err := expand(names)
	if err != nil {
		return nil, err
	}
	edits, err := s.podSetters().parse(words)
	if err != nil {
		return nil, err
	}
	return func(w *world) error {
		for i, n := range list {
			p, ok := w.pods[n.text]
			if !ok {
				p = engine.Pod{Key: n.text, Rank: max(n.number, 0), Created: w.now}
			}
			p.Selector = maps.Clone(p.Selector)
			for _, set := range edits {
				set(&p, moment{w.now, i, len(list)})
			}
			w.pods[n.text] = p
			w.touch(engine.KindPod, n.text)
		}
		return nil
	}, nil
}

func (s *Story) podSetters() setters[engine.Pod] {
	return setters[engine.Pod]{
		flags: map[string]func(*engine.Pod, moment){
			"evictable":   yes(func(p *engine.Pod) *bool { return &p.Evictable }),
			"terminating": yes(func(p *engine.Pod) *bool { return &p.Terminating }),
			"foreign":     yes(func(p *engine.Pod) *bool { return &p.Foreign }),
			"endless":     yes(func(p *engine.Pod) *bool { return &p.Endless }),
			"patient":     yes(func(p *engine.Pod) *bool { return &p.Terms.Patient }),
			"held":        yes(func(p *engine.Pod) *bool { return &p.Terms.Held }),
			"surges":      yes(func(p *engine.Pod) *bool { return &p.Surges }),
		},
		values: merge(membership(), placing(), constraints(), between(), terms(func(p *engine.Pod) *engine.Terms { return &p.Terms })),
		other:  resources(&s.Config, func(p *engine.Pod) *engine.Resources { return &p.Requests }),
	}
}

// membership is whose a pod is and when its turn comes.
func membership() map[string]reader[engine.Pod] {
	return map[string]reader[engine.Pod]{
		"gang":     word(func(p *engine.Pod, v string) { p.Gang = v }),
		"group":    word(func(p *engine.Pod, v string) { p.Subgroup = v }),
		"rank":     number(func(p *engine.Pod, n int) { p.Rank = n }),
		"queue":    word(func(p *engine.Pod, v string) { p.Queue = v }),
		"user":     word(func(p *engine.Pod, v string) { p.User = v }),
		"priority": number(func(p *engine.Pod, n int) { p.Priority = int32(n) }),
		"created":  when(func(p *engine.Pod, t time.Time) { p.Created = t }),
		"uid":      word(func(p *engine.Pod, v string) { p.UID = v }),
	}
}

// placing is where a pod is, or may soon be.
func placing() map[string]reader[engine.Pod] {
	return map[string]reader[engine.Pod]{
		"on": func(text string) (func(*engine.Pod, moment), error) {
			if text == "" {
				return func(p *engine.Pod, _ moment) { p.Node, p.Devices = "", nil }, nil
			}
			nodes, err := texts(text)
			return func(p *engine.Pod, m moment) { p.Node = nodes[m.index*len(nodes)/m.count] }, err
		},
		"devices": func(text string) (func(*engine.Pod, moment), error) {
			ids, err := texts(text)
			return func(p *engine.Pod, m moment) {
				p.Devices = nil
				for _, id := range ids[m.index*len(ids)/m.count : (m.index+1)*len(ids)/m.count] {
					p.Devices = append(p.Devices, onNode(p.Node, id))
				}
			}, err
		},
		"evictable": no(func(p *engine.Pod) *bool { return &p.Evictable }),
		"surges":    no(func(p *engine.Pod) *bool { return &p.Surges }),
		"started":   when(func(p *engine.Pod, t time.Time) { p.Started = t }),
		"idle":      when(func(p *engine.Pod, t time.Time) { p.Idle = t }),
		"owner":     word(func(p *engine.Pod, v string) { p.Owner = v }),
		"budgets":   parsed(nameList, func(p *engine.Pod, v []string) { p.Budgets = v }),
		"release":   when(func(p *engine.Pod, t time.Time) { p.ReleaseAt = t }),
		"nominated": word(func(p *engine.Pod, v string) { p.Nominated = v }),
	}
}

// terms is what pods and gangs say of how they run over time.
func terms[T any](of func(*T) *engine.Terms) map[string]reader[T] {
	return map[string]reader[T]{
		"expected":   span(func(t *T, d time.Duration) { of(t).Expected = d }),
		"max-run":    span(func(t *T, d time.Duration) { of(t).Max = d }),
		"like":       word(func(t *T, v string) { of(t).Like = v }),
		"checkpoint": span(func(t *T, d time.Duration) { of(t).Checkpoint = d }),
		"restart":    span(func(t *T, d time.Duration) { of(t).Restart = d }),
		"grace":      span(func(t *T, d time.Duration) { of(t).Grace = d }),
		"delay":      span(func(t *T, d time.Duration) { of(t).Delay = d }),
		"patient":    no(func(t *T) *bool { return &of(t).Patient }),
		"held":       no(func(t *T) *bool { return &of(t).Held }),
	}
}

// nameList reads names, sorted; an empty value is none.
func nameList(text string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	names, err := texts(text)
	return sorted(names), err
}

// onNode completes the id of a device that is written without its node.
func onNode(node, id string) string {
	if node == "" || strings.Contains(id, "/") {
		return id
	}
	return node + "/" + id
}

// constraints is which nodes and devices fit a pod.
func constraints() map[string]reader[engine.Pod] {
	return map[string]reader[engine.Pod]{
		"selector": parsed(pair, func(p *engine.Pod, kv [2]string) {
			if p.Selector == nil {
				p.Selector = map[string]string{}
			}
			p.Selector[kv[0]] = kv[1]
		}),
		"affinity": affinity,
		"claim":    claim,
		"claimed":  parsed(strconv.Atoi, func(p *engine.Pod, v int) { p.Claimed = int64(v) }),
		"part":     part,
		"prefer":   listed(preference, func(p *engine.Pod) *[]engine.Preference { return &p.Preferred }),
		"tolerate": listed(toleration, func(p *engine.Pod) *[]engine.Toleration { return &p.Tolerations }),
		"port":     listed(port, func(p *engine.Pod) *[]engine.Port { return &p.Ports }),
		"node":     word(func(p *engine.Pod, v string) { p.NodeName = v }),
		"nodes":    parsed(allowedNodes, func(p *engine.Pod, v []string) { p.Nodes = v }),
		"models":   word(func(p *engine.Pod, v string) { p.GPU.Models = strings.Split(v, ",") }),
		"clique":   parsed(wish, func(p *engine.Pod, v engine.Wish) { p.GPU.Clique = v }),
		"numa":     parsed(wish, func(p *engine.Pod, v engine.Wish) { p.GPU.NUMA = v }),
		"feature": listed(func(v string) (why.Feature, error) { return why.Feature(v), nil },
			func(p *engine.Pod) *[]why.Feature { return &p.Features }),
	}
}

// affinity reads one term; repeated, one of them must match. "nothing" is a list without terms.
func affinity(text string) (func(*engine.Pod, moment), error) {
	if text == "nothing" {
		return func(p *engine.Pod, _ moment) { p.Affinity = []engine.Term{} }, nil
	}
	return listed(term, func(p *engine.Pod) *[]engine.Term { return &p.Affinity })(text)
}

// allowedNodes reads names of nodes; "none" is a volume that no node can reach.
func allowedNodes(text string) ([]string, error) {
	if text == "none" {
		return []string{}, nil
	}
	return texts(text)
}

func wish(text string) (engine.Wish, error) {
	w := engine.Wish(text)
	if w != engine.Prefer && w != engine.Require {
		return "", fmt.Errorf("expected prefer or require")
	}
	return w, nil
}

func merge[V any](tables ...map[string]V) map[string]V {
	out := map[string]V{}
	for _, t := range tables {
		maps.Copy(out, t)
	}
	return out
}
