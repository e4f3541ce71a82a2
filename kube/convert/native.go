package convert

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"

	"github.com/berth-dev/berth/engine"
)

// Problem is a value that makes no sense. What it was about is as if nothing had been said.
type Problem struct {
	Pod   string // namespace/name
	Key   string
	Value string
	Want  string // what would make sense
}

// mostMembers is more than any gang has.
const mostMembers = 1_000_000

// NativeGang is the gang that its pods, one at least, describe in our own keys. Where they differ, what the
// lowest-named of them says counts. A minimum that nobody gives is the size, and a size that nobody gives is
// as many pods as there are.
//
// Pods with a subgroup describe that subgroup. What holds for a gang as a whole is asked of it, by any of its
// pods: queue, whole nodes, and a required level that all its pods agree on. One that they do not agree on
// holds within each subgroup.
//
// Version is the highest of the pods'. It falls when that pod is deleted: a caller that saw it must then raise
// it to the version of the deletion.
func NativeGang(pods []*corev1.Pod) (engine.Gang, []Problem) {
	if len(pods) == 0 {
		return engine.Gang{}, nil
	}
	pods = slices.SortedFunc(slices.Values(pods), func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	r := reader{pods: pods}
	g := engine.Gang{
		Version:  slices.Max(each(pods, func(p *corev1.Pod) uint64 { return version(&p.ObjectMeta) })),
		Queue:    r.text(KeyQueue),
		Priority: slices.Max(each(pods, schedulinghelper.PodPriority)),
		Created:  slices.MinFunc(each(pods, func(p *corev1.Pod) time.Time { return p.CreationTimestamp.UTC() }), time.Time.Compare),
	}
	g.Key, _ = GangOf(pods[0])
	if !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return subgroup(p) != "" }) {
		g.Group = r.leaf()
		g.Layout.Required, g.Layout.WholeNodes = r.text(KeyTopologyRequired), r.flag(KeyWholeNodes)
		return g, r.problems
	}
	g.Layout.WholeNodes = r.flag(KeyWholeNodes)
	if r.agree(KeyTopologyRequired) {
		g.Layout.Required = r.text(KeyTopologyRequired)
	}
	g.Groups = r.groups(g.Layout.Required == "")
	return g, r.problems
}

func subgroup(p *corev1.Pod) string { return asked(&p.ObjectMeta, KeySubgroup) }

func each[T any](pods []*corev1.Pod, get func(*corev1.Pod) T) []T {
	out := make([]T, len(pods))
	for i, p := range pods {
		out[i] = get(p)
	}
	return out
}

// reader reads keys off pods, which are sorted by name, and keeps what it could not read.
type reader struct {
	pods     []*corev1.Pod
	problems []Problem
}

// groups reads one leaf for each subgroup, by name. A pod without one has no place in the tree.
func (r *reader) groups(required bool) []engine.Group {
	members := make(map[string][]*corev1.Pod)
	var names []string
	for _, p := range r.pods {
		name := subgroup(p)
		if name == "" {
			r.problems = append(r.problems, Problem{Pod: key(p), Key: KeySubgroup, Want: "a subgroup, as other members have"})
			continue
		}
		if members[name] == nil {
			names = append(names, name)
		}
		members[name] = append(members[name], p)
	}
	slices.Sort(names)
	out := make([]engine.Group, 0, len(names))
	for _, name := range names {
		part := reader{pods: members[name]}
		leaf := part.leaf()
		leaf.Name = name
		if required {
			leaf.Layout.Required = part.text(KeyTopologyRequired)
		}
		out = append(out, leaf)
		r.problems = append(r.problems, part.problems...)
	}
	return out
}

// leaf reads what holds for a group with pods in it.
func (r *reader) leaf() engine.Group {
	g := engine.Group{Min: r.count(KeyMin), Size: r.count(KeySize)}
	g.Layout = engine.Layout{
		Preferred: r.text(KeyTopologyPreferred),
		Balanced:  r.flag(KeyBalanced),
		Spread:    r.text(KeySpread),
	}
	g.Layout.Segment, g.Layout.SegmentLevel = r.segment()
	return g
}

// first returns the lowest-named pod that has the key, and its value.
func (r *reader) first(key string) (*corev1.Pod, string) {
	for _, p := range r.pods {
		if v := asked(&p.ObjectMeta, key); v != "" {
			return p, v
		}
	}
	return nil, ""
}

// agree says whether all pods have the same under the key.
func (r *reader) agree(key string) bool {
	_, value := r.first(key)
	return !slices.ContainsFunc(r.pods, func(p *corev1.Pod) bool { return asked(&p.ObjectMeta, key) != value })
}

func (r *reader) text(key string) string {
	_, v := r.first(key)
	return v
}

func (r *reader) count(key string) int {
	p, v := r.first(key)
	if p == nil {
		return 0
	}
	n, ok := number(v)
	if !ok {
		r.reject(p, key, v, "a whole number from 1 to 1000000")
	}
	return n
}

func (r *reader) flag(key string) bool {
	p, v := r.first(key)
	if p != nil && v != "true" && v != "false" {
		r.reject(p, key, v, "true or false")
	}
	return v == "true"
}

// segment reads size@level.
func (r *reader) segment() (size int, level string) {
	p, v := r.first(KeySegment)
	if p == nil {
		return 0, ""
	}
	left, right, _ := strings.Cut(v, "@")
	size, ok := number(left)
	if !ok || right == "" {
		r.reject(p, KeySegment, v, "a size and a level, such as 4@rack")
		return 0, ""
	}
	return size, right
}

func (r *reader) reject(p *corev1.Pod, k, value, want string) {
	r.problems = append(r.problems, Problem{Pod: key(p), Key: k, Value: value, Want: want})
}

// number reads a count of members; 0 where it is none.
func number(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > mostMembers {
		return 0, false
	}
	return n, true
}
