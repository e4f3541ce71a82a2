package oracle

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

// Rules between pods, by looking at every pod for every question.

// broken lists the rules between pods that keep the pod off the node.
func (w *world) broken(p engine.Pod, n engine.Node) (out []why.Clause) {
	if w.lax {
		return nil
	}
	add := func(kind why.ClauseKind, format string, args ...any) {
		if clause := (why.Clause{Kind: kind, Detail: fmt.Sprintf(format, args...)}); !slices.Contains(out, clause) {
			out = append(out, clause)
		}
	}
	arrivals := w.arrivals(p)
	arrivalsIn := func(key, value string) (out []engine.Pod) {
		for _, g := range arrivals {
			if v, ok := w.node[g.node].Labels[key]; ok && v == value {
				out = append(out, g.pods...)
			}
		}
		return out
	}
	for _, t := range p.Rules().PodAffinity {
		if v, ok := n.Labels[t.Topology]; !ok {
			add(why.ByPodAffinity, "%s: no such label", rule(t))
		} else if w.lonely(p, t, v) {
			add(why.ByPodAffinity, "%s%s", rule(t), w.tell(t.Topology, v, func(v string) bool { return w.lonely(p, t, v) }, "none"))
		}
	}
	for _, t := range p.Rules().PodAntiAffinity {
		hostile := func(v string) []engine.Pod {
			return filter(append(w.in(t.Topology, v), arrivalsIn(t.Topology, v)...), func(q engine.Pod) bool { return selects(t, q) })
		}
		if v, ok := n.Labels[t.Topology]; ok && len(hostile(v)) > 0 {
			add(why.ByPodAntiAffinity, "%s%s", rule(t), w.tell(t.Topology, v, func(v string) bool { return len(hostile(v)) > 0 }, least(hostile(v))))
		}
	}
	for _, t := range w.hostileTerms(p) {
		carriers := func(v string) []engine.Pod {
			return filter(append(w.in(t.Topology, v), arrivalsIn(t.Topology, v)...), func(q engine.Pod) bool {
				return some(q.Rules().PodAntiAffinity, func(o engine.PodTerm) bool { return fmt.Sprintf("%#v", o) == fmt.Sprintf("%#v", t) })
			})
		}
		if v, ok := n.Labels[t.Topology]; ok && len(carriers(v)) > 0 {
			add(why.ByOthersAntiAffinity, "%s%s", rule(t), w.tell(t.Topology, v, func(v string) bool { return len(carriers(v)) > 0 }, least(carriers(v))))
		}
	}
	for _, c := range p.Rules().Spread {
		text := fmt.Sprintf("%s per %s, skew %d", selector(c.Labels), c.Topology, c.MaxSkew)
		if v, ok := n.Labels[c.Topology]; c.Soft {
		} else if !ok {
			add(why.BySpread, "%s: no such label", text)
		} else if count, low, skewed := w.skewed(p, c, v, arrivals); skewed {
			add(why.BySpread, "%s%s", text, w.tell(c.Topology, v, func(v string) bool { _, _, s := w.skewed(p, c, v, arrivals); return s }, fmt.Sprint(count))+tail(w.tells(c.Topology, v, func(v string) bool { _, _, s := w.skewed(p, c, v, arrivals); return s }), low))
		}
	}
	for _, k := range w.fragileFor(p) {
		v, ok := n.Labels[k.topology]
		what := func(v string) string { return w.lost(k, v, arrivals) }
		if ok && what(v) != "" {
			closed := func(v string) bool { return what(v) != "" }
			if w.tells(k.topology, v, closed) {
				add(why.ByPodsToCome, "%s: %s", k.text, what(v))
			} else {
				add(why.ByPodsToCome, "%s", k.text)
			}
		}
	}
	return out
}

// arrival is one or more of the pods that come to a node.
type arrival struct {
	node string
	pods []engine.Pod
	most int
}

// count is how many of those that come may be such pods.
func (g arrival) count(is func(engine.Pod) bool) int { return min(g.most, len(filter(g.pods, is))) }

// arrivals are the pods that are to come and that the pod has to mind: nominated ones of its priority or a higher one, and those that a
// place is held for, none of them of its own workload. To a place that is held any waiting member comes, or one that is moved there, that
// asks for no more than is held.
func (w *world) arrivals(p engine.Pod) (out []arrival) {
	for _, q := range w.Pods {
		_, placed := w.at[q.Key]
		if !placed && !q.Terminating && q.Nominated != "" && q.Gang != p.Gang && q.Priority >= w.gang[p.Gang].Priority {
			out = append(out, arrival{q.Nominated, []engine.Pod{q}, 1})
		}
	}
	mine := w.claimed(w.Holds, p.Gang)
	for _, h := range w.Holds {
		if mine[place(h)] || !w.stands(h) {
			continue
		}
		_, known := w.gang[h.Gang]
		pods := filter(w.Pods, func(q engine.Pod) bool {
			moves := some(w.Evictions, func(e engine.Eviction) bool {
				return e.Pod == q.Key && e.UID == q.UID && e.To == h.Node && !e.Refused && q.Node != ""
			})
			waits := q.Node == "" && !q.Terminating
			is := q.Gang == h.Gang || !known && q.Gang == q.Key && q.Owner == h.Gang
			return is && !q.Foreign && (waits || moves) && !some(h.Requests, func(a engine.Amount) bool {
				return a.Resource != engine.Pods && amount(q.Requests, a.Resource) > a.Value
			})
		})
		out = append(out, arrival{h.Node, pods, max(1, int(amount(h.Requests, engine.Pods)))})
	}
	return out
}

// fragile is a rule of pods that may come, which a pod that the terms select can break for them.
type fragile struct {
	terms    []engine.PodTerm
	topology string
	spread   *engine.Spread // nil: affinity
	text     string
	key      string
}

// fragileFor are those of all pods that the pod could break, each once.
func (w *world) fragileFor(p engine.Pod) (out []fragile) {
	add := func(k fragile) {
		if !some(k.terms, func(t engine.PodTerm) bool { return !selects(t, p) }) && !some(out, func(o fragile) bool { return o.key == k.key }) {
			out = append(out, k)
		}
	}
	for _, q := range w.Pods {
		for _, k := range fragileOf(q) {
			add(k)
		}
	}
	return out
}

func fragileOf(q engine.Pod) (out []fragile) {
	for _, c := range q.Rules().Spread {
		if !c.Soft {
			k := fragile{terms: []engine.PodTerm{{Namespaces: []string{c.Namespace}, Labels: c.Labels}}, topology: c.Topology, spread: &c}
			k.text = fmt.Sprintf("%s per %s, skew %d", selector(c.Labels), c.Topology, c.MaxSkew)
			k.key = fmt.Sprintf("%#v %s %d %d", k.terms, c.Topology, c.MaxSkew, c.MinDomains)
			out = append(out, k)
		}
	}
	var terms []engine.PodTerm
	var texts []string
	for _, t := range q.Rules().PodAffinity {
		terms, texts = append(terms, engine.PodTerm{Namespaces: t.Namespaces, Labels: t.Labels}), append(texts, selector(t.Labels))
	}
	for _, t := range q.Rules().PodAffinity {
		out = append(out, fragile{terms: terms, topology: t.Topology, text: strings.Join(texts, " and ") + " per " + t.Topology, key: fmt.Sprintf("%#v %s", terms, t.Topology)})
	}
	return out
}

// lost is the arrival that would lose its place if one more pod that can break the rule were in the domain, with the domain that it comes to; "":
// none.
func (w *world) lost(k fragile, value string, arrivals []arrival) string {
	matches := func(q engine.Pod) bool {
		return !some(k.terms, func(t engine.PodTerm) bool { return !selects(t, q) })
	}
	has := func(q engine.Pod) bool {
		return (k.spread != nil || matches(q)) && some(fragileOf(q), func(o fragile) bool { return o.key == k.key })
	}
	counts, come, first := map[string]int{}, map[string]int{}, map[string]string{}
	for _, n := range w.Nodes {
		v, ok := n.Labels[k.topology]
		if !ok {
			continue
		}
		counts[v] += len(filter(w.Pods, func(q engine.Pod) bool {
			if w.at[q.Key].node != n.Name || !matches(q) {
				return false
			}
			return k.spread != nil && !q.Terminating || k.spread == nil && q.Node != "" && !w.leaving(q)
		}))
		for _, g := range arrivals {
			if g.node == n.Name {
				come[v] += g.count(has)
				for _, q := range filter(g.pods, has) {
					if first[v] == "" || q.Key < first[v] {
						first[v] = q.Key
					}
				}
			}
		}
	}
	if k.spread == nil {
		alone := ""
		for _, v := range slices.Sorted(maps.Keys(come)) {
			if come[v] > 0 && counts[v] == 0 && (alone == "" || first[v] < strings.Split(alone, " ")[0]) {
				alone = first[v] + " in " + v
			}
		}
		if come[value] > 0 {
			return ""
		}
		return alone
	}
	low := counts[value] + come[value]
	//archtest:any-order the smallest of all
	for v, n := range counts {
		if v != value {
			low = min(low, n)
		}
	}
	if len(counts) < max(1, int(k.spread.MinDomains)) {
		low = 0
	}
	if come[value] == 0 || counts[value]+come[value]+1-low <= int(k.spread.MaxSkew) {
		return ""
	}
	return first[value] + " in " + value
}

func tail(told bool, low int) string {
	if !told {
		return ""
	}
	return fmt.Sprintf(", %d in the least", low)
}

// in is the pods on nodes with the value of the label.
func (w *world) in(key, value string) []engine.Pod {
	return filter(w.Pods, func(q engine.Pod) bool {
		v, ok := w.node[w.at[q.Key].node].Labels[key]
		return ok && v == value
	})
}

// lonely says whether no pod that the pod must be near is in the domain, unless it is one of them and would be the first.
func (w *world) lonely(p engine.Pod, t engine.PodTerm, value string) bool {
	all := func(q engine.Pod) bool {
		return !some(p.Rules().PodAffinity, func(t engine.PodTerm) bool { return !selects(t, q) })
	}
	if some(w.in(t.Topology, value), all) {
		return false
	}
	exists := some(p.Rules().PodAffinity, func(t engine.PodTerm) bool {
		return some(w.Pods, func(q engine.Pod) bool {
			_, in := w.node[w.at[q.Key].node].Labels[t.Topology]
			return in && all(q)
		})
	})
	return exists || !all(p)
}

// hostileTerms are the terms of anti-affinity that pods have against the pod, each once.
func (w *world) hostileTerms(p engine.Pod) (out []engine.PodTerm) {
	for _, q := range w.Pods {
		for _, t := range q.Rules().PodAntiAffinity {
			if selects(t, p) && !some(out, func(o engine.PodTerm) bool { return fmt.Sprintf("%#v", o) == fmt.Sprintf("%#v", t) }) {
				out = append(out, t)
			}
		}
	}
	return out
}

// skewed says whether one more pod would make the domain too full beside the one with the fewest, with what each counts.
func (w *world) skewed(p engine.Pod, c engine.Spread, value string, arrivals []arrival) (count, low int, skewed bool) {
	counts, come := map[string]int{}, 0
	for _, n := range w.Nodes {
		if some(p.Rules().Spread, func(o engine.Spread) bool { _, ok := n.Labels[o.Topology]; return !o.Soft && !ok }) {
			continue
		}
		selected := !some(slices.Sorted(maps.Keys(p.Selector)), func(k string) bool { v, ok := n.Labels[k]; return !ok || v != p.Selector[k] }) &&
			(p.Affinity == nil || some(p.Affinity, func(t engine.Term) bool { return matches(t, n) }))
		tainted := n.Cordoned && !tolerates(p, unschedulable) ||
			some(n.Taints, func(t engine.Taint) bool { return t.Effect != engine.PreferNoSchedule && !tolerates(p, t) })
		if !c.AnyNode && !selected || c.Untainted && tainted {
			continue
		}
		counts[n.Labels[c.Topology]] += len(filter(w.Pods, func(q engine.Pod) bool {
			return w.at[q.Key].node == n.Name && !q.Terminating && namespace(q) == c.Namespace && selectsLabels(c.Labels, q)
		}))
		for _, g := range arrivals {
			if g.node == n.Name && n.Labels[c.Topology] == value {
				come += g.count(func(q engine.Pod) bool { return namespace(q) == c.Namespace && selectsLabels(c.Labels, q) })
			}
		}
	}
	if _, counted := counts[value]; counted {
		counts[value] += come // who is to come counts where the pod would be, and nowhere else
	}
	low = -1
	//archtest:any-order the smallest of all
	for _, n := range counts {
		if low < 0 || n < low {
			low = n
		}
	}
	if len(counts) < max(1, int(c.MinDomains)) {
		low = 0
	}
	more := 0
	if namespace(p) == c.Namespace && selectsLabels(c.Labels, p) {
		more = 1
	}
	return counts[value], low, counts[value]+more-low > int(c.MaxSkew)
}

// tells says whether the domain is one of the eight first by name that are closed.
func (w *world) tells(key, value string, closed func(string) bool) bool {
	var values []string
	for _, n := range w.Nodes {
		if v, ok := n.Labels[key]; ok && closed(v) {
			values = append(values, v)
		}
	}
	slices.Sort(values)
	values = slices.Compact(values)
	return slices.Contains(values[:min(len(values), 8)], value)
}

// tell is what is said of a domain that is closed.
func (w *world) tell(key, value string, closed func(string) bool, what string) string {
	if !w.tells(key, value, closed) {
		return ""
	}
	return ": " + what + " in " + value
}

func least(pods []engine.Pod) string {
	return slices.MinFunc(pods, func(a, b engine.Pod) int { return cmp.Compare(a.Key, b.Key) }).Key
}

func namespace(p engine.Pod) string { return strings.Split(p.Key, "/")[0] }

func selects(t engine.PodTerm, p engine.Pod) bool {
	return (t.Namespaces == nil || slices.Contains(t.Namespaces, namespace(p))) && selectsLabels(t.Labels, p)
}

func selectsLabels(labels []engine.Requirement, p engine.Pod) bool {
	return labels != nil && !some(labels, func(r engine.Requirement) bool { return !holds(r, p.Labels) })
}

func rule(t engine.PodTerm) string { return selector(t.Labels) + " per " + t.Topology }

func selector(labels []engine.Requirement) string {
	if labels == nil {
		return "no pod"
	}
	var out []string
	for _, r := range labels {
		values, one := strings.Join(r.Values, ", "), len(r.Values) == 1
		switch {
		case r.Op == engine.In && one:
			out = append(out, r.Key+"="+values)
		case r.Op == engine.NotIn && one:
			out = append(out, r.Key+"!="+values)
		case r.Op == engine.In:
			out = append(out, r.Key+" in ("+values+")")
		case r.Op == engine.NotIn:
			out = append(out, r.Key+" notin ("+values+")")
		case r.Op == engine.Exists:
			out = append(out, r.Key)
		default:
			out = append(out, "!"+r.Key)
		}
	}
	return cmp.Or(strings.Join(out, ", "), "any pod")
}

// ruled says whether some pod has a rule between pods: then the order in which pods start matters.
func (w *world) ruled() bool { return some(w.Pods, hasRules) }

// hasRules says whether the pod is to be near others, apart from them, or spread with them.
func hasRules(p engine.Pod) bool {
	return len(p.Rules().PodAffinity)+len(p.Rules().PodAntiAffinity)+len(p.Rules().Spread) > 0
}

// tryInAnyOrder is try for worlds with rules between pods: any of the members is the next.
func (w *world) tryInAnyOrder(g engine.Gang, members []engine.Pod, model string) bool {
	if len(w.fresh(w.Pods)) > 0 && w.breach(g) == "" {
		return true
	}
	w.model = model
	for i, p := range members {
		rest := append(slices.Clone(members[:i]), members[i+1:]...)
		for _, n := range w.Nodes {
			for _, ids := range w.choices(p, n, model) {
				w.at[p.Key] = spot{n.Name, ids}
				if w.tryInAnyOrder(g, rest, model) {
					return true
				}
				delete(w.at, p.Key)
			}
		}
	}
	return false
}

// placeInAnyOrder carries the placements out in some order in which each is lawful.
func (w *world) placeInAnyOrder(pods []engine.Pod, places []engine.Placement, model string) error {
	if len(places) == 0 {
		return nil
	}
	var first error
	for i, x := range places {
		k := slices.IndexFunc(pods, func(p engine.Pod) bool { return p.Key == x.Pod })
		err := w.place(pods[k], x, model)
		if err == nil {
			if err = w.placeInAnyOrder(pods, append(slices.Clone(places[:i]), places[i+1:]...), model); err == nil {
				return nil
			}
			delete(w.at, x.Pod)
		}
		if first == nil {
			first = fmt.Errorf("%s on %s: %w", x.Pod, x.Node, err)
		}
	}
	return first
}

// seenAlike says whether rules between pods see no difference between two pods of one spec: the same terms of others are about
// them, and the same of their own.
func (w *world) seenAlike(a, b engine.Pod) bool {
	terms := slices.Clone(a.Rules().PodAntiAffinity)
	for _, q := range w.Pods {
		terms = append(terms, q.Rules().PodAntiAffinity...)
	}
	for _, c := range a.Rules().Spread {
		terms = append(terms, engine.PodTerm{Namespaces: []string{c.Namespace}, Labels: c.Labels})
	}
	for _, q := range w.Pods {
		for _, k := range fragileOf(q) {
			if some(k.terms, func(t engine.PodTerm) bool { return !selects(t, a) }) != some(k.terms, func(t engine.PodTerm) bool { return !selects(t, b) }) {
				return false
			}
		}
	}
	near := func(p engine.Pod) bool {
		return !some(a.Rules().PodAffinity, func(t engine.PodTerm) bool { return !selects(t, p) })
	}
	return near(a) == near(b) && !some(terms, func(t engine.PodTerm) bool { return selects(t, a) != selects(t, b) })
}

// wishedApart says whether a preference of some pod is about one of the two and not about the other. What a pod that runs, or is
// nominated, requires to have beside it is such a preference for those that come after it, as upstream weighs it.
func (w *world) wishedApart(a, b engine.Pod) bool {
	differ := func(t engine.PodTerm) bool { return selects(t, a) != selects(t, b) }
	return slices.ContainsFunc(append(slices.Clone(w.Pods), a), func(q engine.Pod) bool {
		return slices.ContainsFunc(q.Rules().PodAffinity, differ) ||
			slices.ContainsFunc(q.Rules().PodPreferred, func(p engine.PodPreference) bool { return differ(p.PodTerm) })
	})
}
