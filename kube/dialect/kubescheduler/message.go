package kubescheduler

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Message is what the stock scheduler wrote about a pod that it could not place: a histogram of the first thing that was
// wrong with each node. It is read where nodes may not be, and as evidence elsewhere. The words are those of
// Kubernetes 1.30 to 1.37.
type Message struct {
	Text    string
	At      time.Time
	Nodes   int      // in the cluster
	Whole   string   // about the pod as a whole, without counts: what it is refused for on every node
	Reasons []Reason // as written: sorted by text
	// Evicting is what the scheduler found about evicting others.
	Evicting Evicting
	Cut      bool // the end is missing: an event holds 1,024 bytes
}

// Reason is one reason, with the nodes it was given for. A node that is short of several resources counts in each.
type Reason struct {
	Nodes int
	Text  string
}

// Evicting is the end of a message. On nodes in Never nothing that could be evicted would help: a rule keeps the pod
// off, or, from 1.34 on, it is larger than the node. On those in Nobody it would fit, and nothing on them may be
// evicted for it.
type Evicting struct {
	Known         bool
	Never, Nobody int
	Barred        string // why it was not looked into: "not eligible due to preemptionPolicy=Never"
}

// Count is on how many nodes a reason was given that begins with the words.
func (s *Message) Count(words string) int {
	n := 0
	for _, r := range s.Reasons {
		if strings.HasPrefix(r.Text, words) {
			n += r.Nodes
		}
	}
	return n
}

// Short is on how many nodes there was too little of the resource.
func (s *Message) Short(resource string) int {
	n := 0
	for _, r := range s.Reasons {
		if r.Text == "Insufficient "+resource {
			n += r.Nodes
		}
	}
	return n
}

// Lacks are the resources of which there was too little somewhere.
func (s *Message) Lacks() []string {
	var out []string
	for _, r := range s.Reasons {
		if name, ok := strings.CutPrefix(r.Text, "Insufficient "); ok && r.Nodes > 0 {
			out = append(out, name)
		}
	}
	return out
}

// Taints are those that the message names, as "key: value"; from 1.34 on it names none.
func (s *Message) Taints() []corev1.Taint {
	var out []corev1.Taint
	for _, r := range s.Reasons {
		in, ok := strings.CutPrefix(r.Text, "node(s) had untolerated taint {")
		if !ok {
			continue
		}
		key, value, ok := strings.Cut(strings.TrimSuffix(in, "}"), ":")
		if ok {
			out = append(out, corev1.Taint{Key: key, Value: strings.TrimSpace(value), Effect: corev1.TaintEffectNoSchedule})
		}
	}
	return out
}

const (
	NoNodes  = "no nodes available to schedule pods"
	saidHead = " nodes are available: "
	saidCut  = " ..."
)

// Parse reads a message; false for one that the stock scheduler did not write.
func Parse(message string) (Message, bool) {
	s := Message{Text: message}
	text := strings.TrimSpace(message)
	if strings.HasPrefix(text, NoNodes) {
		s.Whole = NoNodes
		return s, true
	}
	if len(message) >= 1000 {
		text, s.Cut = strings.CutSuffix(text, saidCut)
	}
	var ok bool
	if s.Nodes, text, ok = saidNodes(text); !ok {
		return Message{}, false
	}
	body, end := splitEvicting(text)
	s.Evicting = decodeEvicting(end)
	if end == "" && s.Cut {
		body = dropLast(body)
	}
	body = strings.TrimSuffix(strings.TrimSpace(body), ".")
	s.Reasons, ok = ParseReasons(body)
	if !ok {
		s.Reasons, s.Whole = nil, body
	}
	return s, s.Whole != "" || len(s.Reasons) > 0
}

// saidNodes reads "0/7 nodes are available: " and returns what follows.
func saidNodes(text string) (nodes int, rest string, ok bool) {
	head, rest, ok := strings.Cut(text, saidHead)
	if !ok {
		return 0, "", false
	}
	none, all, ok := strings.Cut(head, "/")
	n, err := strconv.Atoi(all)
	if !ok || none != "0" || err != nil || n < 0 {
		return 0, "", false
	}
	return n, rest, true
}

// splitEvicting parts the reasons from what the scheduler says of evicting. Releases differ in what is between.
func splitEvicting(text string) (reasons, evicting string) {
	for _, mark := range []string{"no new claims to deallocate, ", "still not schedulable, ", "preemption: "} {
		if i := strings.Index(text, mark); i >= 0 && (i == 0 || text[i-1] == ' ') {
			return text[:i], text[i:]
		}
	}
	return text, ""
}

// decodeEvicting reads "preemption: 0/7 nodes are available: 2 Preemption is not helpful for scheduling, 5 No …".
func decodeEvicting(text string) Evicting {
	_, text, ok := strings.Cut(text, "preemption: ")
	if !ok {
		return Evicting{}
	}
	_, body, ok := saidNodes(text)
	if !ok {
		return Evicting{Barred: strings.TrimSuffix(strings.TrimSpace(text), ".")}
	}
	reasons, ok := ParseReasons(strings.TrimSuffix(strings.TrimSpace(body), "."))
	out := Evicting{Known: ok}
	for _, r := range reasons {
		if strings.HasPrefix(r.Text, "Preemption is not helpful") {
			out.Never += r.Nodes
			continue
		}
		out.Nobody += r.Nodes
	}
	return out
}

// ParseReasons reads "1 reason, 10 other reason": a comma parts two reasons where a count follows it.
func ParseReasons(text string) ([]Reason, bool) {
	var out []Reason
	for _, part := range strings.Split(text, ", ") {
		number, reason, ok := strings.Cut(part, " ")
		n, err := strconv.Atoi(number)
		switch {
		case ok && err == nil && n >= 0 && n < 1e9 && reason != "":
			out = append(out, Reason{Nodes: n, Text: reason})
		case len(out) == 0:
			return nil, false
		default:
			out[len(out)-1].Text += ", " + part
		}
	}
	return out, true
}

// dropLast takes away the reason that was cut.
func dropLast(body string) string {
	if i := strings.LastIndex(body, ", "); i >= 0 {
		return body[:i]
	}
	return body
}

// Strands says whether there are nodes that have enough of the device and too little of something else.
func (s *Message) Strands(device string) bool {
	return slices.ContainsFunc(s.Lacks(), func(name string) bool { return name != device && s.Short(name) > s.Short(device) })
}
