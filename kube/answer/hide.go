package answer

import (
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/report"
)

// view is what a caller may read beside what was asked for.
type view struct {
	nodes bool                        // names of nodes and of where they are
	pods  func(namespace string) bool // names of workloads in the namespace
}

// mostNamed bounds the holders and the workloads ahead that are named; the others are counted.
const mostNamed = 20

// hide leaves out of the workload what the viewer may not read. The values it is given are shared: what changes is
// copied.
func (v view) hide(w *Workload) {
	if len(w.Certificates) > 0 {
		certs := make([]why.Certificate, len(w.Certificates))
		for i, c := range w.Certificates {
			certs[i] = v.certificate(c)
		}
		w.Certificates = certs
	}
	w.Gates = v.gates(w.Gates)
	if len(w.Gates) > 0 {
		w.Sentence = report.Sentence(w.Gates, w.Certificates, why.WorkloadName)
	}
	if w.Position != nil {
		w.Position = v.position(w.Position)
	}
	if w.Holders != nil {
		w.Holders = v.holders(w.Holders)
	}
	if w.ETA != nil {
		eta := *w.ETA
		eta.Because = v.words(eta.Because)
		for _, g := range w.Gates { // whose certificates name nodes only to who may read them
			if g.Cause == eta.Cause && !g.NamesWorkload() {
				eta.Because = g.Sentence(w.Certificates)
				break
			}
		}
		w.ETA = &eta
	}
	if e := w.Evicting; e != nil && e.For != nil && !v.pods(e.For.Namespace) {
		shown := *e
		shown.For = nil
		w.Evicting = &shown
	}
}

// words is the text without the names of other workloads: words with a slash, of which what is before it can be a
// namespace. Resources have a domain there.
func (v view) words(text string) string {
	words := strings.Fields(text)
	for i, word := range words {
		if namespace, _, ok := strings.Cut(word, "/"); ok && !strings.Contains(namespace, ".") && !v.pods(namespace) {
			words[i] = untoldWorkload
		}
	}
	return strings.Join(words, " ")
}

// gates are the same without the names of other workloads.
func (v view) gates(gates []why.Gate) []why.Gate {
	out := gates
	for i, g := range gates {
		if !g.NamesWorkload() {
			continue
		}
		if namespace, _, _ := strings.Cut(g.Object, "/"); v.pods(namespace) {
			continue
		}
		if &out[0] == &gates[0] {
			out = slices.Clone(gates)
		}
		out[i].Object = untoldWorkload
	}
	return out
}

func (v view) position(p *Position) *Position {
	out := *p
	out.Ahead = nil
	for _, r := range p.Ahead {
		if len(out.Ahead) < mostNamed && v.pods(r.Namespace) {
			out.Ahead = append(out.Ahead, r)
		} else {
			out.Others++
		}
	}
	return &out
}

func (v view) holders(h *Holders) *Holders {
	out := *h
	out.Items = nil
	for _, i := range h.Items {
		if len(out.Items) < mostNamed && v.pods(i.Namespace) {
			out.Items = append(out.Items, i)
		} else {
			out.Others.Workloads++
			out.Others.Amount += i.Amount
		}
	}
	return &out
}

// certificate has the same counts with names left out: of nodes and domains, which become numbers, and of other
// workloads.
func (v view) certificate(c why.Certificate) why.Certificate {
	domains := make([]why.Domain, len(c.Domains))
	for i, d := range c.Domains {
		name := v.domain(c.Level, d.Name, i)
		if c.Pinned != "" && d.Name == c.Pinned {
			c.Pinned = name
		}
		d.Name, d.Rows = name, slices.Clone(d.Rows)
		for j := range d.Rows {
			v.row(&d.Rows[j])
		}
		domains[i] = d
	}
	c.Domains = domains
	return c
}

// domain is the name by which the viewer may know a domain. That of nodes outside any is "" to everybody.
func (v view) domain(level, name string, at int) string {
	if v.nodes || name == "" {
		return name
	}
	return level + " #" + strconv.Itoa(at+1)
}

func (v view) row(r *why.Row) {
	if !v.nodes {
		r.Example = ""
	}
	if !slices.ContainsFunc(r.Removed, v.tells) {
		return
	}
	r.Removed = slices.Clone(r.Removed)
	for i := range r.Removed {
		if v.tells(r.Removed[i]) {
			r.Removed[i].Detail = hidden(r.Removed[i])
		}
	}
}

// untoldWorkload stands for another's workload in a sentence.
const untoldWorkload = "another workload"

// untold stands for a name that the viewer may not read.
const untold = "(not shown)"

// hidden is what of a clause's detail who may not read it is told: of the workload's own rules between pods, the rule.
func hidden(c why.Clause) string {
	switch c.Kind {
	case why.ByPodAffinity, why.ByPodAntiAffinity, why.BySpread:
		return c.Rule()
	}
	return untold
}

// tells says whether the clause tells the viewer something that they may not read: another's workload, or, in
// somebody's own words, a node.
func (v view) tells(c why.Clause) bool {
	switch c.Kind {
	case why.ByWholeNode:
		namespace, _, _ := strings.Cut(c.Detail, "/")
		return !v.pods(namespace)
	case why.ByRefusal, why.ByPodAffinity, why.BySpread:
		return !v.nodes
	case why.ByPodAntiAffinity, why.ByOthersAntiAffinity, why.ByPodsToCome:
		namespace, _, _ := strings.Cut(c.Pod(), "/")
		return !v.nodes || !v.pods(namespace)
	}
	return false
}
