package why

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Meaning is one line about a cause for a person who has never seen its code; "" for an unknown one.
func Meaning(c Cause) string {
	switch c {
	case ClusterFull:
		return "Nodes of the right kind exist, but what is free on all of them together is not enough."
	case Fragmented:
		return "Enough is free in all, but it lies in pieces too small for one pod."
	case TopologyFragmented:
		return "Enough pods would fit in the cluster, but not close enough together."
	case LargerThanAnyNode:
		return "One pod asks for more than an empty node of the right kind has; waiting will not help."
	case Stranded:
		return "GPUs are free, but on nodes that have no CPU, memory or other resource left to go with them."
	case PodRules:
		return "Nodes have room, but rules between pods keep the job off them: affinity, anti-affinity or topology spread."
	case NoMatchingNode:
		return "Selectors, taints, cordons or other conditions leave no node to try."
	case GangIncomplete:
		return "The job starts whole, and some of the pods it needs for that do not exist yet."
	case GangMissing:
		return "The pod belongs to a gang that does not exist."
	case GroupMissing:
		return "The pod names a subgroup that its gang does not have."
	case QueueMissing:
		return "The job names a queue that does not exist."
	case QueueForbidden:
		return "The job names a queue that is not open to its namespace."
	case QueueStopped:
		return "The queue is stopped; nothing starts from it until it is reopened."
	case WorkloadHeld:
		return "Somebody holds the job back; it starts once it is released."
	case OverQueueLimit:
		return "The queue's limit would be passed; the job waits for other jobs of the same queue to end."
	case ExceedsQueueMaximum:
		return "The job alone is larger than its queue's limit; waiting will not help."
	case OverUserLimit:
		return "The user's limit in the queue would be passed; the job waits for the same user's other jobs to end."
	case QueueBusy:
		return "As many jobs of the queue run as may at a time."
	case OverBudget:
		return "The queue has used up its budget for this period."
	case OverQuota:
		return "The job may not be evicted, so it may not borrow; it waits until it fits into the queue's quota."
	case NotLent:
		return "What is free belongs to queues that do not lend it."
	case MakingRoom:
		return "Other work is being ended so that this job can start."
	case KeptForPromise:
		return "The job would fit, but then a job before it would start later than promised."
	case KeptByBooking:
		return "The job would fit, but on nodes that are booked for another queue before it is over."
	case BehindTheHead:
		return "A job before it in its queue is blocked, and may not be passed any more."
	case UnknownTopologyLevel:
		return "The job wants to be together at a topology level that no node is part of."
	case SearchBudget:
		return "No place was found within the search budget; one may exist."
	case UnsupportedFeature:
		return "The job asks for something that Berth does not decide yet, so it is not placed at all."
	case InvalidObject:
		return "The job, as written, contradicts itself and was rejected."
	}
	return ""
}

// Sentence says what the gate needs and what there is, with names and numbers; certs are those of the
// plan or explanation that the gate is from. It has no capital and no full stop, so that callers may
// compose it.
func (g Gate) Sentence(certs []Certificate) string {
	if g.Share != (Share{}) {
		share := g.Share
		g.Share = Share{}
		return g.Sentence(certs) + "; " + share.Text()
	}
	if g.Certificate >= 0 && g.Certificate < len(certs) {
		return certs[g.Certificate].sentence(g)
	}
	switch g.Cause {
	case GangIncomplete:
		what := "member"
		if g.Resource == Groups {
			what = "group"
		}
		return g.about(fmt.Sprintf("needs %s to start; %d %s", count(g.Need, what), g.Have, exist(g.Have)))
	case GangMissing:
		if name := WorkloadName(g.Object); strings.HasPrefix(name, "Composite") {
			return name + " does not exist"
		}
		return fmt.Sprintf("gang %s does not exist", g.Object)
	case GroupMissing:
		return fmt.Sprintf("subgroup %s does not exist", g.Object)
	case QueueMissing:
		return fmt.Sprintf("queue %s does not exist", g.Object)
	case QueueForbidden:
		return fmt.Sprintf("queue %s is not open to this namespace", g.Object)
	case QueueStopped:
		return fmt.Sprintf("queue %s is stopped", g.Object)
	case WorkloadHeld:
		return "is held, and starts once it is released"
	case OverQueueLimit:
		return fmt.Sprintf("needs %s of queue %s, which uses %s of %s", g.amount(g.Need), g.Object, g.Quantity(g.Have), g.Quantity(g.Limit))
	case ExceedsQueueMaximum:
		return fmt.Sprintf("needs %s of queue %s, whose limit is %s", g.amount(g.Need), g.Object, g.Quantity(g.Limit))
	case OverUserLimit:
		return fmt.Sprintf("needs %s of user %s, who uses %s of %s", g.amount(g.Need), g.Object, g.Quantity(g.Have), g.Quantity(g.Limit))
	case QueueBusy:
		return fmt.Sprintf("%d of %s of queue %s %s", g.Have, count(g.Limit, "workload"), g.Object, runs(g.Have))
	case OverBudget:
		return fmt.Sprintf("queue %s has used %s of %s in this period", g.Object, hours(g.Resource, g.Have), hours(g.Resource, g.Limit))
	case OverQuota:
		return fmt.Sprintf("needs %s within the quota of queue %s, which uses %s of %s; it may not be evicted, so it may not borrow", g.amount(g.Need), g.Object, g.Quantity(g.Have), g.Quantity(g.Limit))
	case NotLent:
		if g.Object == "" {
			return fmt.Sprintf("needs %s without a queue of its own, and a place is held for somebody who would borrow them", g.amount(g.Need))
		}
		return fmt.Sprintf("needs %s more than the quota of queue %s, and others lend %s more", g.amount(g.Need), g.Object, g.Quantity(g.Have))
	case MakingRoom:
		return fmt.Sprintf("waits for %s to end for it", count(g.Need, "pod"))
	case KeptForPromise:
		return fmt.Sprintf("fits, but would delay %s, which was promised a start", g.Object)
	case KeptByBooking:
		return fmt.Sprintf("fits, but on nodes that are booked: %s", g.Object)
	case BehindTheHead:
		return fmt.Sprintf("waits behind %s", g.Object)
	case UnknownTopologyLevel:
		return fmt.Sprintf("no node is in any %s", g.Object)
	case NoMatchingNode:
		if g.Object != "" {
			return "no node has " + g.Object
		}
	case SearchBudget:
		return g.budgetSentence()
	case Fragmented, TopologyFragmented:
		return g.about(fmt.Sprintf("needs %s together; every way to place them was tried and none works", count(g.Need, "pod")))
	case PodRules:
		return g.rulesSentence()
	case UnsupportedFeature:
		return fmt.Sprintf("asks for %s, which is not supported yet", g.Object)
	case InvalidObject:
		return g.Object
	}
	return g.plainSentence()
}

// budgetSentence names the part that was searched for; Need is the budget, where it is known.
func (g Gate) budgetSentence() string {
	s := "no place found"
	if g.Object != "" {
		s += " for " + g.Object
	}
	if g.Need > 0 {
		s += fmt.Sprintf(" in %s", count(g.Need, "step"))
	}
	return s + "; one may exist"
}

// rulesSentence is for rules between pods of one workload; Have is how many of them have a place, where that is known.
func (g Gate) rulesSentence() string {
	s := fmt.Sprintf("needs %s, which rules between pods keep apart or together", count(g.Need, "pod"))
	if g.Have > 0 {
		return g.about(fmt.Sprintf("%s; %s a place that way", s, haveOf(g.Have)))
	}
	return g.about(s + "; every way to place them was tried and none works")
}

func haveOf(n int64) string {
	if n == 1 {
		return "1 has"
	}
	return fmt.Sprintf("%d have", n)
}

// plainSentence is for a shut gate that brings numbers and no certificate.
func (g Gate) plainSentence() string {
	return g.about(fmt.Sprintf("needs %s; there is room for %s", g.amount(g.Need), g.Quantity(g.Have)))
}

// about puts what the gate is about before a sentence, where that is not the workload as a whole.
func (g Gate) about(sentence string) string {
	if g.Object == "" {
		return sentence
	}
	return g.Object + " " + sentence
}

// hours writes seconds of a resource held as hours of it.
func hours(resource string, seconds int64) string {
	return fmt.Sprintf("%.1f %s-hours", float64(seconds)/3600, resource)
}

// Text is what the share keeps a workload from, as part of a sentence.
func (s Share) Text() string {
	number := func(v int64) string { return Gate{Resource: s.Resource, Milli: s.Milli}.Quantity(v) }
	return fmt.Sprintf("nothing of a lower priority is evicted for it, as queue %s would have %s %s with it, and its fair share is %s", s.Queue, number(s.With), s.Resource, number(s.Fair))
}

// Quantity writes one of the gate's numbers.
func (g Gate) Quantity(v int64) string {
	if g.Milli {
		return Thousandths(v)
	}
	return Quantity(g.Resource, v)
}

// Thousandths writes thousandths as a decimal number, like 0.25.
func Thousandths(v int64) string {
	if v%1000 == 0 {
		return strconv.FormatInt(v/1000, 10)
	}
	sign := ""
	if v < 0 {
		sign, v = "-", -v
	}
	return sign + strings.TrimRight(fmt.Sprintf("%d.%03d", v/1000, v%1000), "0")
}

// Needs is what the workload needs of it, like "8 nvidia.com/gpu in flavor spot".
func (g Gate) Needs() string { return g.amount(g.Need) }

func (g Gate) amount(v int64) string {
	if g.Resource == "" {
		return count(v, "pod")
	}
	if g.Milli {
		return Thousandths(v) + " " + named(g.Resource)
	}
	return Amount{Resource: g.Resource, Value: v}.Text()
}

// sentence is what the certificate proves, then what is short, then what excludes nodes.
func (c Certificate) sentence(g Gate) string {
	if g.Cause == LargerThanAnyNode {
		return c.largerSentence()
	}
	parts := []string{c.headline()}
	removed, short := c.obstacles()
	for _, s := range short {
		parts = append(parts, s.Text())
	}
	for _, r := range brief(removed) {
		parts = append(parts, r.Text())
	}
	if out := c.outside(); out > 0 {
		parts = append(parts, fmt.Sprintf("%s in no %s", count(int64(out), "node"), c.Level))
	}
	if len(short) > 0 && c.evictionCouldHelp(g.Cause) {
		parts = append(parts, fmt.Sprintf("up to %d would fit if all that may be evicted or is leaving were gone", c.IfEvicted))
	}
	if g.Object != c.Level {
		parts[0] = g.about(parts[0])
	}
	return strings.Join(parts, "; ")
}

// evictionCouldHelp says whether the bound, which is by resources alone, allows that hope: only where GPUs are
// what is short.
func (c Certificate) evictionCouldHelp(cause Cause) bool {
	switch cause {
	case ClusterFull, Fragmented, TopologyFragmented:
		return c.IfEvicted >= int64(c.Need) && c.SegmentLevel == ""
	}
	return false
}

// headline is the demand and the supply.
func (c Certificate) headline() string {
	s := "needs " + c.demand()
	best, ok := c.Best()
	switch {
	case c.Level == "" && c.SegmentLevel != "":
		s += fmt.Sprintf("; %s", fitting(segments(c.Domains), "whole segment"))
	case c.Level == "":
		s += fmt.Sprintf("; %s", fitting(c.Total, ""))
	case !ok:
		s += fmt.Sprintf("; there is no %s", c.Level)
	case c.Pinned != "":
		s += fmt.Sprintf("; %s, where its members run, fits %d (%d in all)", c.Pinned, best.Fits, c.Total)
	case c.SegmentLevel != "":
		s += fmt.Sprintf("; the best, %s, fits %s (%s in all)", best.Name, count(best.Segments, "whole segment"), count(c.Total, "pod"))
	default:
		s += fmt.Sprintf("; the best, %s, fits %d (%d in all)", best.Name, best.Fits, c.Total)
	}
	return s
}

// demand is the pods, what each asks for, and how they are to lie.
func (c Certificate) demand() string {
	s := count(int64(c.Need), "pod")
	if each := c.each(); each != "" {
		s += " of " + each
	}
	if c.SegmentLevel != "" {
		s += fmt.Sprintf(" in segments of %d, each %s", c.Segment, in(c.SegmentLevel))
	}
	if c.Level != "" {
		s += ", all " + in(c.Level)
	}
	return s
}

func (c Certificate) each() string {
	parts := Amounts(c.Request)
	if c.Model != "" {
		parts = append(parts, "model "+c.Model)
	}
	for _, f := range c.Flavors {
		parts = append(parts, "flavor "+f)
	}
	return strings.Join(parts, " + ")
}

// largerSentence names the resources of which even the largest node has too little.
func (c Certificate) largerSentence() string {
	var parts []string
	for _, l := range c.Lacks() {
		largest := "node"
		if l.Resource == CardMemory {
			largest = "card"
		}
		parts = append(parts, fmt.Sprintf("one pod needs %s; the largest %s has %s", Amount{Resource: l.Resource, Value: l.Need}.Text(), largest, Quantity(l.Resource, l.Largest)))
	}
	if len(parts) == 0 {
		parts = append(parts, fmt.Sprintf("one pod needs %s; no node that matches has all of it, even when empty", c.each()))
	}
	removed, _ := c.obstacles()
	for _, r := range brief(removed) {
		if r.Kind != ByParts || r.Detail != SmallCards { // that is what was said
			parts = append(parts, r.Text())
		}
	}
	return strings.Join(parts, "; ")
}

// Lack is a resource of which one pod needs more than any node of the right kind has, even an empty one.
type Lack struct {
	Resource string `json:"resource"`
	Need     int64  `json:"need"`
	Largest  int64  `json:"largest"` // allocatable of the node that has most
}

// Lacks are the resources that make a pod larger than any node, sorted; none where no single one does.
func (c Certificate) Lacks() []Lack {
	var out []Lack
	for _, r := range c.Request {
		if most := c.most(r.Resource); most < r.Value {
			out = append(out, Lack{Resource: r.Resource, Need: r.Value, Largest: most})
		}
	}
	return out
}

// Refusals are the reasons that nodes, or the API server for them, gave for not having the pods, each once and sorted.
func (c Certificate) Refusals() []string {
	var out []string
	for _, d := range c.Domains {
		for _, r := range d.Rows {
			for _, x := range r.Removed {
				if x.Kind == ByRefusal && !slices.Contains(out, x.Detail) {
					out = append(out, x.Detail)
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// most is the largest allocatable amount of a resource on any node.
func (c Certificate) most(resource string) int64 {
	var most int64
	for _, class := range c.Classes {
		for _, a := range class.Allocatable {
			if a.Resource == resource {
				most = max(most, a.Value)
			}
		}
	}
	return most
}

// Best is the domain that holds most, the first of equals by name, or the one that members already run in.
// Nodes outside any domain of the level are not one.
func (c Certificate) Best() (Domain, bool) {
	best, found := Domain{}, false
	for _, d := range c.Domains {
		if c.Level != "" && d.Name == "" || c.Pinned != "" && d.Name != c.Pinned {
			continue
		}
		if !found || d.Segments > best.Segments || d.Segments == best.Segments && d.Fits > best.Fits {
			best, found = d, true
		}
	}
	return best, found
}

// outside is how many nodes are in no domain of the level.
func (c Certificate) outside() int {
	n := 0
	for _, d := range c.Domains {
		if c.Level == "" || d.Name != "" {
			continue
		}
		for _, r := range d.Rows {
			n += r.Nodes
		}
	}
	return n
}

// obstacles are the clauses and shortages of all rows, added up, in order of name.
func (c Certificate) obstacles() ([]Clause, []Short) {
	var removed []Clause
	var short []Short
	for _, d := range c.Domains {
		for _, r := range d.Rows {
			for _, x := range r.Removed {
				removed = addClause(removed, x)
			}
			for _, x := range r.Short {
				short = addShort(short, x)
			}
		}
	}
	slices.SortFunc(removed, func(a, b Clause) int {
		return strings.Compare(string(a.Kind)+"\x00"+a.Detail, string(b.Kind)+"\x00"+b.Detail)
	})
	slices.SortFunc(short, func(a, b Short) int { return strings.Compare(a.Resource, b.Resource) })
	return removed, short
}

func addClause(all []Clause, c Clause) []Clause {
	for i := range all {
		if all[i].Kind == c.Kind && all[i].Detail == c.Detail {
			all[i].Nodes += c.Nodes
			return all
		}
	}
	return append(all, c)
}

func addShort(all []Short, s Short) []Short {
	for i := range all {
		if all[i].Resource == s.Resource {
			all[i].Nodes += s.Nodes
			all[i].By = min(all[i].By, s.By)
			return all
		}
	}
	return append(all, s)
}

// brief makes one clause of those that each node has for itself: other workloads on it, and refusals. They
// would make a sentence as long as the cluster is wide. Workloads are counted and not named: sentences are read by
// people who may not know of them.
func brief(clauses []Clause) []Clause {
	var out []Clause
	for i := 0; i < len(clauses); {
		j := i + 1
		for j < len(clauses) && clauses[j].Kind == clauses[i].Kind && clauses[i].joins(clauses[j]) {
			j++
		}
		out = append(out, joinClauses(clauses[i:j]))
		i = j
	}
	return out
}

// joins says whether the two clauses, of one kind, are told as one.
func (c Clause) joins(o Clause) bool {
	switch c.Kind {
	case ByWholeNode, ByRefusal, ByOthersAntiAffinity, ByPodsToCome:
		return true
	case ByPodAffinity, ByPodAntiAffinity, BySpread:
		return c.Rule() == o.Rule()
	}
	return false
}

// Rule is, of a clause about a rule between pods, the rule without what is in its way.
func (c Clause) Rule() string {
	rule, _, _ := strings.Cut(c.Detail, ": ")
	return rule
}

// Pod is the key of the pod that a clause about a rule between pods names; "": it names none.
func (c Clause) Pod() string {
	if c.Kind != ByPodAntiAffinity && c.Kind != ByOthersAntiAffinity && c.Kind != ByPodsToCome {
		return ""
	}
	_, told, _ := strings.Cut(c.Detail, ": ")
	pod, _, _ := strings.Cut(told, " in ")
	return pod
}

func joinClauses(same []Clause) Clause {
	c := same[0]
	for _, x := range same[1:] {
		c.Nodes += x.Nodes
	}
	switch n := int64(len(same)); {
	case c.Kind == ByWholeNode:
		c.Detail = count(n, "other workload")
	case c.Kind == ByPodAffinity, c.Kind == ByPodAntiAffinity, c.Kind == BySpread:
		c.Detail = c.Rule()
	case c.Kind == ByOthersAntiAffinity, c.Kind == ByPodsToCome:
		c.Detail = ""
	case n > 1:
		c.Detail += " and " + count(n-1, "other")
	}
	return c
}

func segments(domains []Domain) int64 {
	var n int64
	for _, d := range domains {
		n += d.Segments
	}
	return n
}

// Text is the clause as part of a sentence.
func (c Clause) Text() string {
	nodes := count(int64(c.Nodes), "node")
	switch c.Kind {
	case ByAffinity:
		return "node affinity excludes " + nodes
	case ByCordon:
		return nodes + " cordoned"
	case ByNodeName:
		return fmt.Sprintf("asks for node %s alone, which excludes %s", c.Detail, nodes)
	case ByNodeSet:
		return "volumes exclude " + nodes
	case ByPort:
		if strings.Contains(c.Detail, " ") { // no port: something else that one pod at a time has
			return fmt.Sprintf("%s on %s", c.Detail, nodes)
		}
		return fmt.Sprintf("host port %s taken on %s", c.Detail, nodes)
	case ByModel:
		return fmt.Sprintf("no free GPU of model %s on %s", c.Detail, nodes)
	case ByNamed:
		return fmt.Sprintf("no free GPU that it may use (%s) on %s", c.Detail, nodes)
	case ByIsland:
		return "GPUs not in one NVLink clique or NUMA node on " + nodes
	case ByDevices: // begins as the stock scheduler's message does, which people look for
		return fmt.Sprintf("cannot allocate all claims: no devices, or too few, for %s on %s", c.Detail, nodes)
	case ByHeld:
		return fmt.Sprintf("cannot allocate all claims: devices for %s held by others on %s", c.Detail, nodes)
	case ByWholeOnly:
		return "no GPU given in parts on " + nodes
	case ByParts:
		return partsText(c.Detail) + " on " + nodes
	case ByShared:
		return "GPUs given away in parts on " + nodes
	case ByClaimsOnly:
		return "GPUs only through resource claims on " + nodes
	case ByWholeNode:
		return fmt.Sprintf("%s cannot be shared with %s", nodes, c.Detail)
	case ByRefusal:
		return fmt.Sprintf("%s refused it: %s", nodes, c.Detail)
	case ByNominated:
		return nodes + " kept for nominated pods"
	case ByPodAffinity:
		return fmt.Sprintf("affinity to pods (%s) excludes %s", c.Detail, nodes)
	case ByPodAntiAffinity:
		return fmt.Sprintf("anti-affinity to pods (%s) excludes %s", c.Detail, nodes)
	case ByOthersAntiAffinity:
		if c.Detail == "" {
			return "anti-affinity of running pods excludes " + nodes
		}
		return fmt.Sprintf("anti-affinity of running pods (%s) excludes %s", c.Detail, nodes)
	case ByPodsToCome:
		if c.Detail == "" {
			return "rules of pods that have places held exclude " + nodes
		}
		return fmt.Sprintf("rules of pods that have places held (%s) exclude %s", c.Detail, nodes)
	case BySpread:
		return fmt.Sprintf("topology spread (%s) excludes %s", c.Detail, nodes)
	}
	return fmt.Sprintf("%s %s excludes %s", c.Kind, c.Detail, nodes)
}

// partsText is what the cards of a node lack.
func partsText(detail string) string {
	switch detail {
	case "memory":
		return "too little GPU memory left on each card"
	case "compute":
		return "too little GPU compute left on each card"
	case "pods":
		return "each card shared by as many pods as may"
	case SmallCards:
		return "no card large enough"
	case UnknownCards:
		return "not known which GPUs are taken"
	}
	return "GPUs held whole, or unhealthy,"
}

// Text is the shortage as part of a sentence.
func (s Short) Text() string {
	by := Quantity(s.Resource, s.By)
	if s.Nodes > 1 {
		by = "at least " + by
	}
	return fmt.Sprintf("%s short by %s on %s", s.Resource, by, count(int64(s.Nodes), "node"))
}

// Text is the amount with its unit and name, like "8 nvidia.com/gpu".
func (a Amount) Text() string {
	switch a.Resource {
	case CardMemory:
		return Quantity(a.Resource, a.Value) + " of GPU memory"
	case CardShare:
		return Quantity(a.Resource, a.Value) + " of a GPU"
	case CardCompute:
		return Quantity(a.Resource, a.Value) + " of GPU compute"
	case Cards:
		return count(a.Value, "card")
	}
	return a.Quantity() + " " + named(a.Resource)
}

// named is the resource of an amount of a queue, which may be of one flavor of nodes.
func named(resource string) string {
	base, flavor, ok := strings.Cut(resource, "#")
	if !ok {
		return resource
	}
	return base + " in flavor " + flavor
}

// Quantity is the amount without the name.
func (a Amount) Quantity() string {
	if a.Milli != 0 {
		return Thousandths(a.Value*1000 + a.Milli)
	}
	return Quantity(a.Resource, a.Value)
}

// Amounts is the texts of several.
func Amounts(all []Amount) []string {
	var out []string
	for _, a := range all {
		out = append(out, a.Text())
	}
	return out
}

// Quantity writes a value of a resource as Kubernetes would: cores for cpu, binary units for bytes where
// they are exact, else the number.
func Quantity(resource string, v int64) string {
	resource, _, _ = strings.Cut(resource, "#") // of a flavor
	switch {
	case resource == "cpu":
		return cores(v)
	case resource == "memory" || strings.HasSuffix(resource, "storage") || strings.HasPrefix(resource, "hugepages-"):
		return bytes(v)
	}
	switch resource {
	case CardMemory:
		return strconv.FormatInt(v, 10) + " MiB"
	case CardShare, CardCompute:
		return strconv.FormatFloat(float64(v)/10, 'f', -1, 64) + "%"
	}
	return strconv.FormatInt(v, 10)
}

func cores(milli int64) string {
	return strconv.FormatFloat(float64(milli)/1000, 'f', -1, 64)
}

func bytes(v int64) string {
	units := []string{"Ti", "Gi", "Mi", "Ki"}
	for i, unit := range units {
		size := int64(1) << (10 * (len(units) - i))
		if v != 0 && v%size == 0 {
			return strconv.FormatInt(v/size, 10) + unit
		}
	}
	return strconv.FormatInt(v, 10)
}

// in is "in one rack", or "on one node".
func in(level string) string {
	if level == "node" {
		return "on one node"
	}
	return "in one " + level
}

func fitting(n int64, noun string) string {
	s := strconv.FormatInt(n, 10)
	if noun != "" {
		s = count(n, noun)
	}
	if n == 1 {
		return s + " fits"
	}
	return s + " fit"
}

func exist(n int64) string {
	if n == 1 {
		return "exists"
	}
	return "exist"
}

func runs(n int64) string {
	if n == 1 {
		return "runs"
	}
	return "run"
}

// count is "1 pod", "2 pods".
func count(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.FormatInt(n, 10) + " " + noun + "s"
}

// Cite returns the gates of one workload with the certificates that they speak of, of all those of a plan, numbered
// anew.
func Cite(gates []Gate, all []Certificate) ([]Gate, []Certificate) {
	gates = slices.Clone(gates)
	var kept []Certificate
	for i := range gates {
		if c := gates[i].Certificate; c >= 0 {
			gates[i].Certificate = len(kept)
			kept = append(kept, all[c])
		}
	}
	return gates, kept
}
