package describe

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/calendar"
	"github.com/berth-dev/berth/engine/internal/census"
	"github.com/berth-dev/berth/engine/why"
)

// Plan writes a plan for people and golden files: starts, evictions, promises, waits with all their gates, edits of memory
// in one line, and when to look again, from the plan's own moment.
func Plan(p api.Plan) string {
	var b strings.Builder
	for _, s := range joinSingles(p.Starts) {
		describeStart(&b, s)
	}
	describeEvictions(&b, p)
	for _, x := range p.Promises {
		fmt.Fprintf(&b, "promises %s a start at %s on %s\n", x.Gang, since(p.Now, x.Start), strings.Join(fold(x.Nodes), " "))
	}
	for _, w := range p.Waiting {
		short := ""
		if w.Short {
			short = ", under its minimum"
		}
		fmt.Fprintf(&b, "waits %s%s: %s, %s\n", w.Gang, short, w.Verdict, w.Cause)
		describeGates(&b, w.Gates, p.Certificates)
	}
	for _, gang := range p.Short {
		fmt.Fprintf(&b, "short %s: it runs under its minimum, and the members it lacks do not exist\n", gang)
	}
	if s := describeMemory(p.Changes); s != "" {
		fmt.Fprintf(&b, "memory: %s\n", s)
	}
	if !p.WakeAt.IsZero() {
		fmt.Fprintf(&b, "wakes %s\n", since(p.Now, p.WakeAt))
	}
	if b.Len() == 0 {
		return "nothing to do\n"
	}
	return b.String()
}

// singles is the name under which neighbouring pods that are gangs of their own are told together.
const singles = "single pods"

// joinSingles makes one start of neighbours that are alike but for the pod.
func joinSingles(starts []api.Start) []api.Start {
	var out []api.Start
	for _, s := range starts {
		last := len(out) - 1
		if last < 0 || !joins(out[last], s) {
			out = append(out, s)
			continue
		}
		out[last].Gang = singles
		out[last].Placements = slices.Concat(out[last].Placements, s.Placements)
		out[last].Borrowed = out[last].Borrowed.Plus(s.Borrowed)
	}
	return out
}

// joins says whether the next start reads in one line with the one before it.
func joins(s, next api.Start) bool {
	return (s.Gang == singles || isSingle(s)) && isSingle(next) && s.Kind == next.Kind && s.Model == next.Model &&
		(len(s.Borrowed) > 0) == (len(next.Borrowed) > 0)
}

func isSingle(s api.Start) bool { return len(s.Placements) == 1 && s.Placements[0].Pod == s.Gang }

func describeStart(b *strings.Builder, s api.Start) {
	kind := string(s.Kind)
	if s.Model != "" {
		kind += ", " + s.Model
	}
	if len(s.Borrowed) > 0 {
		kind += ", borrows " + strings.Join(why.Amounts(s.Borrowed), " + ")
	}
	fmt.Fprintf(b, "starts %s (%s)\n", s.Gang, kind)
	for _, l := range joinNodes(byNode(s.Placements)) {
		fmt.Fprintf(b, "  %s\n", l)
	}
}

// describeEvictions writes what is evicted, neighbours that go for the same reason in one line.
func describeEvictions(b *strings.Builder, p api.Plan) {
	for i := 0; i < len(p.Evictions); {
		e := p.Evictions[i]
		var pods []string
		for ; i < len(p.Evictions) && readsAlike(e, p.Evictions[i]); i++ {
			pods = append(pods, p.Evictions[i].Pod)
		}
		reason := string(e.Cause)
		if e.To != "" {
			reason += " to " + e.To
		}
		if e.For != "" {
			reason += " for " + e.For
		}
		if e.Surge {
			reason += ", once the next one runs there"
		}
		if e.At.After(p.Now) {
			reason += ", at " + since(p.Now, e.At)
		}
		fmt.Fprintf(b, "evicts %s (%s)\n", strings.Join(fold(pods), " "), reason)
	}
}

// readsAlike says whether the other eviction reads the same, but for the pod.
func readsAlike(e, other api.Eviction) bool {
	return e.Cause == other.Cause && e.For == other.For && e.To == other.To && e.Surge == other.Surge && e.At.Equal(other.At)
}

func describeGates(b *strings.Builder, gates []why.Gate, certs []why.Certificate) {
	for i, g := range gates {
		if i == 0 {
			fmt.Fprintf(b, "  %s\n", g.Sentence(certs))
			continue
		}
		fmt.Fprintf(b, "  also %s: %s\n", g.Cause, g.Sentence(certs))
	}
}

// nodeLine is what starts on one node, or on a run of nodes that get the same.
type nodeLine struct {
	nodes, pods, devices []string // devices without their node's name in front
}

func (l nodeLine) String() string {
	s := strings.Join(fold(l.nodes), " ") + ": " + strings.Join(fold(l.pods), " ")
	if len(l.nodes) > 1 {
		s += fmt.Sprintf(", %d each", len(l.pods)/len(l.nodes))
	}
	if len(l.devices) > 0 {
		s += " on " + strings.Join(fold(l.devices), " ")
	}
	return s
}

// byNode gathers placements, which are in order of rank, into nodes in order of first use.
func byNode(placements []api.Placement) []nodeLine {
	var lines []nodeLine
	at := map[string]int{}
	for _, p := range placements {
		i, ok := at[p.Node]
		if !ok {
			i = len(lines)
			at[p.Node] = i
			lines = append(lines, nodeLine{nodes: []string{p.Node}})
		}
		lines[i].pods = append(lines[i].pods, p.Pod)
		for _, d := range p.Devices {
			lines[i].devices = append(lines[i].devices, strings.TrimPrefix(d, p.Node+"/"))
		}
	}
	return lines
}

// joinNodes makes one line of neighbours that get equally many pods in one unbroken run, and the same
// devices.
func joinNodes(lines []nodeLine) []nodeLine {
	var out []nodeLine
	for _, l := range lines {
		if len(out) == 0 || !out[len(out)-1].continues(l) {
			out = append(out, l)
			continue
		}
		last := &out[len(out)-1]
		last.nodes = append(last.nodes, l.nodes...)
		last.pods = append(last.pods, l.pods...)
	}
	return out
}

func (l nodeLine) continues(next nodeLine) bool {
	return len(l.pods) == len(l.nodes)*len(next.pods) &&
		slices.Equal(l.devices, next.devices) &&
		len(fold(slices.Concat(l.nodes, next.nodes))) == 1 &&
		len(fold(slices.Concat(l.pods, next.pods))) == 1
}

// fold writes runs of names that differ in a number at their end, counting up by one, as one: a-[0-7].
func fold(names []string) []string {
	var out []string
	for i := 0; i < len(names); {
		j := i + 1
		for j < len(names) && follows(names[j-1], names[j]) {
			j++
		}
		out = append(out, foldRun(names[i:j]))
		i = j
	}
	return out
}

func foldRun(run []string) string {
	if len(run) == 1 {
		return run[0]
	}
	prefix, first := cutNumber(run[0])
	_, last := cutNumber(run[len(run)-1])
	return prefix + "[" + first + "-" + last + "]"
}

// follows says whether b is a with the number at its end one higher and as many leading zeros as that
// takes.
func follows(a, b string) bool {
	prefix, digits := cutNumber(a)
	n, err := strconv.ParseUint(digits, 10, 32)
	return err == nil && b == fmt.Sprintf("%s%0*d", prefix, len(digits), n+1)
}

func cutNumber(name string) (prefix, digits string) {
	prefix = strings.TrimRight(name, "0123456789")
	return prefix, name[len(prefix):]
}

// describeMemory counts the edits by kind. What queues have spent is left out: it goes up in every plan.
func describeMemory(changes []api.Change) string {
	added, dropped := map[api.Kind]int{}, map[api.Kind]int{}
	for _, c := range changes {
		switch {
		case c.Assumption != nil:
			added[api.KindAssumption]++
		case c.Refusal != nil:
			added[api.KindRefusal]++
		case c.Hold != nil:
			added[api.KindHold]++
		case c.Eviction != nil:
			added[api.KindEviction]++
		case c.Promise != nil:
			added[api.KindPromise]++
		case c.RunTimeEstimate != nil:
			added[api.KindRunTimeEstimate]++
		case c.Degradation != nil:
			added[api.KindDegradation]++
		case c.RequestMix != nil:
			added[api.KindRequestMix]++
		case c.Gone != nil:
			dropped[c.Gone.Kind]++
		}
	}
	return strings.Join(slices.Concat(countKinds("adds", added), countKinds("drops", dropped)), ", ")
}

func countKinds(verb string, counts map[api.Kind]int) []string {
	var out []string
	for _, k := range []api.Kind{api.KindAssumption, api.KindRefusal, api.KindHold, api.KindEviction, api.KindPromise, api.KindRunTimeEstimate, api.KindDegradation, api.KindRequestMix} {
		if n := counts[k]; n > 0 {
			out = append(out, fmt.Sprintf("%s %s", verb, plural(n, string(k))))
		}
	}
	return out
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// since is the time from one moment to another, like "+30s" or "-1m".
func since(from, to time.Time) string {
	s := to.Sub(from).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	if strings.HasPrefix(s, "-") {
		return s
	}
	return "+" + s
}

// Report writes a report: a line for all, one for each pool, one for each model's largest jobs.
func Report(r census.Report) string {
	var b strings.Builder
	for i, u := range append([]census.Usage{r.All}, r.Pools...) {
		name := "all"
		if i > 0 {
			name = "pool " + u.Pool
		}
		fmt.Fprintf(&b, "%s: %d of %d GPUs on %s, %d free; utilisation %s, fragmentation %s\n",
			name, u.Allocated, u.GPUs, plural(u.Nodes, "node"), u.FreeNodes, percent(u.Utilisation()), percent(u.Fragmentation()))
	}
	for i, l := range r.Largest {
		if i == 0 || r.Largest[i-1].Model != l.Model {
			fmt.Fprintf(&b, "largest job%s:\n", ofModel(l.Model))
		}
		fmt.Fprintf(&b, "  %s %s\n", plural(int(l.GPUs), "GPU"), placeName(l))
	}
	return b.String()
}

func ofModel(model string) string {
	if model == "" {
		return ""
	}
	return " of " + model
}

func placeName(l census.Largest) string {
	switch l.Level {
	case "":
		return "in all"
	case api.NodeLevel:
		return "on one node, " + l.Domain
	}
	return "in one " + l.Level + ", " + l.Domain
}

func percent(f float64) string { return strconv.FormatFloat(100*f, 'f', 1, 64) + " %" }

// Explanation writes an explanation with every row of its certificates.
func Explanation(e why.Explanation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", e.Workload, e.Verdict)
	if e.Cause != "" {
		fmt.Fprintf(&b, ", %s; %d ahead", e.Cause, e.Ahead)
	}
	if e.Steps > 0 {
		fmt.Fprintf(&b, "; %s", plural(e.Steps, "step"))
	}
	b.WriteByte('\n')
	describeGates(&b, e.Gates, e.Certificates)
	if len(e.Releasing) > 0 {
		fmt.Fprintf(&b, "  %s on the way out", strings.Join(why.Amounts(e.Releasing), " + "))
		if !e.ReleasedBy.IsZero() {
			fmt.Fprintf(&b, ", gone by %s", since(e.Now, e.ReleasedBy))
		}
		b.WriteByte('\n')
	}
	for i, c := range e.Certificates {
		describeCertificate(&b, i, c)
	}
	return b.String()
}

func describeCertificate(b *strings.Builder, index int, c why.Certificate) {
	fmt.Fprintf(b, "certificate %d: %d fit in all; by resources alone %d in the best place, if all that may be evicted or is leaving were gone\n",
		index, c.Total, c.IfEvicted)
	for _, d := range c.Domains {
		name := d.Name
		switch {
		case c.Level == "":
			name = "the cluster"
		case name == "":
			name = "no " + c.Level
		}
		fmt.Fprintf(b, "  %s fits %d", name, d.Fits)
		if c.SegmentLevel != "" {
			fmt.Fprintf(b, ", %s", plural(int(d.Segments), "whole segment"))
		}
		b.WriteByte('\n')
		for _, r := range d.Rows {
			fmt.Fprintf(b, "    %s\n", describeRow(r))
		}
	}
	for i, class := range c.Classes {
		fmt.Fprintf(b, "  class %d: %s\n", i, describeClass(class))
	}
}

func describeRow(r why.Row) string {
	s := fmt.Sprintf("%s of class %d, such as %s: %d fit", plural(r.Nodes, "node"), r.Class, r.Example, r.Fits)
	for _, x := range r.Short {
		s += "; " + x.Text()
	}
	for _, x := range r.Removed {
		s += "; " + x.Text()
	}
	return s
}

func describeClass(c why.Class) string {
	parts := why.Amounts(c.Allocatable)
	for _, m := range c.Models {
		parts = append(parts, "model "+m)
	}
	for _, l := range c.Labels {
		parts = append(parts, "label "+l)
	}
	for _, t := range c.Taints {
		parts = append(parts, "taint "+t)
	}
	if c.Cordoned {
		parts = append(parts, "cordoned")
	}
	return fmt.Sprintf("%s; %d fit when empty", strings.Join(parts, ", "), c.PerEmpty)
}

// Queues writes queues, in the order of the tree and indented by it: what each is promised, may have and uses,
// what waits in it, and what there is to warn of.
func Queues(uses []census.QueueUse) string {
	if len(uses) == 0 {
		return "no queues\n"
	}
	var b strings.Builder
	for _, u := range uses {
		indent := strings.Repeat("  ", u.Depth)
		fmt.Fprintf(&b, "%s%s: %s\n", indent, u.Name, strings.Join(describeQueue(u), ", "))
		for _, w := range u.Warnings {
			fmt.Fprintf(&b, "%s  warning: %s\n", indent, w)
		}
	}
	return b.String()
}

func describeQueue(u census.QueueUse) (parts []string) {
	switch {
	case !u.Known:
		parts = append(parts, "does not exist")
	case u.Problem != "":
		parts = append(parts, "has no effect")
	}
	for _, x := range []struct {
		what    string
		amounts api.Resources
	}{{"quota", u.Quota}, {"limit", u.Limits}, {"lends at most", u.Lend}, {"uses", u.Used}, {"borrows", u.Borrowed}, {"lends", u.Lent}} {
		if len(x.amounts) > 0 {
			parts = append(parts, x.what+" "+strings.Join(why.Amounts(x.amounts.Sorted()), " + "))
		}
	}
	if len(u.Used) == 0 {
		parts = append(parts, "uses nothing")
	}
	if n := u.Waiting.Workloads; n > 0 {
		parts = append(parts, fmt.Sprintf("%d waiting", n))
	}
	return parts
}

// Forecast writes estimates, one a line, from the moment they were made.
func Forecast(now time.Time, all []calendar.Estimate) string {
	if len(all) == 0 {
		return "nothing waits\n"
	}
	var b strings.Builder
	at := func(t time.Time) string {
		if t.IsZero() {
			return "unknown"
		}
		return since(now, t)
	}
	for _, e := range all {
		fmt.Fprintf(&b, "%s: earliest %s, likely %s, latest %s; %s\n", e.Gang, at(e.Earliest), at(e.Likely), at(e.Latest), e.Because)
	}
	return b.String()
}

// Rejected writes rejections, one a line.
func Rejected(all []api.Rejected) string {
	if len(all) == 0 {
		return "nothing\n"
	}
	var b strings.Builder
	for _, r := range all {
		fmt.Fprintf(&b, "%s %s: %s\n", r.Kind, r.Key, r.Reason)
	}
	return b.String()
}
