package convert

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
)

// NativeGang is the gang that its pods, one at least, describe in our own keys. Where they differ, what the
// lowest-named of them says counts. A minimum that nobody gives is the size. A size that nobody gives is what the
// owners of its pods make, and the pods that have none of them; without owners, as many pods as there are. What
// has succeeded is not waited for: as the owners say, and finished, by subgroup, for pods that have none of them. A
// value that cannot be read makes the gang invalid.
//
// Pods with a subgroup describe that subgroup. What holds for a gang as a whole is asked of it, by any of its
// pods: queue, whole nodes, its terms, and a required level that all its pods agree on. One that they do not agree on
// holds within each subgroup. A subgroup may be named by its path, serve/decode: then it is in the subgroup serve.
//
// Version is the highest of the pods'. It falls when that pod is deleted: a caller that saw it must then raise
// it to the version of the deletion.
func NativeGang(pods []*corev1.Pod, owners []PartOwner, finished map[string]int) engine.Gang {
	if len(pods) == 0 {
		return engine.Gang{}
	}
	pods = slices.SortedFunc(slices.Values(pods), func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	r := reader{pods: pods, owners: owners, finished: finished[""]}
	g := engine.Gang{
		Version:  slices.Max(each(pods, func(p *corev1.Pod) uint64 { return version(&p.ObjectMeta) })),
		Queue:    r.text(v1alpha1.KeyQueue),
		Priority: slices.Max(each(pods, schedulinghelper.PodPriority)),
		Created:  slices.MinFunc(each(pods, func(p *corev1.Pod) time.Time { return p.CreationTimestamp.UTC() }), time.Time.Compare),
	}
	g.Key, _ = GangOf(pods[0])
	g.Layout.WholeNodes = r.flag(v1alpha1.KeyWholeNodes)
	if !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return subgroup(p) != "" }) {
		whole := g.Layout.WholeNodes
		g.Group = r.leaf()
		g.Layout.Required, g.Layout.WholeNodes = r.text(v1alpha1.KeyTopologyRequired), whole
	} else {
		if r.agree(v1alpha1.KeyTopologyRequired) {
			g.Layout.Required = r.text(v1alpha1.KeyTopologyRequired)
		}
		g.Groups = r.groups(g.Layout.Required == "", finished)
		g.MinGroups = r.tree(&g, finished)
	}
	size := 0
	for _, key := range []string{v1alpha1.KeySize, v1alpha1.KeyMin} {
		if n, ok := number(r.text(key)); ok {
			size = n
		}
	}
	r.problems = slices.Concat(gangLimits(&g, pods), r.problems, gangTerms(&g, pods, size))
	g.Invalid = said(r.problems)
	if len(g.Groups) > MaxSubgroups {
		g.Groups = g.Groups[:MaxSubgroups] // it is invalid, and not kept at its size
	}
	return g
}

// PartOwner is an owner of pods of a gang, and the part of the gang that they are in.
type PartOwner struct {
	*Owner
	Subgroup string
}

func subgroup(p *corev1.Pod) string { return asked(&p.ObjectMeta, v1alpha1.KeySubgroup) }

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
	owners   []PartOwner
	finished int
	problems []string
}

// groups reads one leaf for each subgroup, by name. A pod without one has no place in the tree.
func (r *reader) groups(required bool, finished map[string]int) []engine.Group {
	members := make(map[string][]*corev1.Pod)
	var names []string
	for _, p := range r.pods {
		name := subgroup(p)
		if name == "" {
			r.problems = append(r.problems, fmt.Sprintf("pod %s has no %s, as other members have", p.Name, v1alpha1.KeySubgroup))
			continue
		}
		if slices.Contains(strings.Split(name, "/"), "") {
			r.reject(p, v1alpha1.KeySubgroup, name, "a name, or a path such as serve/decode")
			continue
		}
		if members[name] == nil {
			names = append(names, name)
		}
		members[name] = append(members[name], p)
	}
	for _, o := range r.owners { // one that has made no pods yet is waited for
		if o.Subgroup != "" && !slices.Contains(names, o.Subgroup) && !slices.Contains(strings.Split(o.Subgroup, "/"), "") && len(names) <= MaxSubgroups {
			names = append(names, o.Subgroup)
		}
	}
	slices.Sort(names)
	out := make([]engine.Group, 0, len(names))
	for _, name := range names {
		part := reader{pods: members[name], finished: finished[name]}
		part.owners = slices.DeleteFunc(slices.Clone(r.owners), func(o PartOwner) bool { return o.Subgroup != name })
		leaf := part.leaf()
		leaf.Name = name
		if required {
			leaf.Layout.Required = part.text(v1alpha1.KeyTopologyRequired)
		}
		out = append(out, leaf)
		r.problems = append(r.problems, part.problems...)
	}
	return out
}

// leaf reads what holds for a group with pods in it.
func (r *reader) leaf() engine.Group {
	g := engine.Group{Min: Less(r.count(v1alpha1.KeyMin), r.finished), Size: Less(r.count(v1alpha1.KeySize), r.finished)}
	g.Layout = engine.Layout{
		Preferred: r.text(v1alpha1.KeyTopologyPreferred),
		Balanced:  r.flag(v1alpha1.KeyBalanced),
		Spread:    r.text(v1alpha1.KeySpread),
	}
	g.Layout.Segment, g.Layout.SegmentLevel = r.segment()
	if len(r.owners) > 0 {
		r.expect(&g)
	}
	return g
}

// Less is a number of members without those that have finished; one that is not given stays so.
func Less(members, finished int) int {
	if members == 0 {
		return 0
	}
	return max(1, members-finished)
}

// expect fills in what the owners of the group's pods say about how many there will be.
func (r *reader) expect(g *engine.Group) {
	coming, done := r.coming()
	if g.Size == 0 || done > 0 {
		g.Size = coming
	}
	if done > 0 && g.Size > 0 {
		g.Min = min(g.Min, g.Size)
	}
	for _, o := range r.owners {
		if o.InTurn && o.Pods > 1 && g.Min != 1 {
			r.problems = append(r.problems, fmt.Sprintf("%s %s makes its pods one after the other: set podManagementPolicy to Parallel, or %s to 1", o.Kind, o.Name, v1alpha1.KeyMin))
		}
	}
}

// coming counts the pods that there are or will be, and those that have succeeded.
func (r *reader) coming() (coming, done int) {
	for _, o := range r.owners {
		coming += o.Pods
		done += o.Done
	}
	for _, p := range r.pods {
		c := metav1.GetControllerOfNoCopy(p)
		if c == nil || !slices.ContainsFunc(r.owners, func(o PartOwner) bool { return o.UID == c.UID }) {
			coming++
		}
	}
	return coming, done
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
	p, v := r.first(v1alpha1.KeySegment)
	if p == nil {
		return 0, ""
	}
	left, right, _ := strings.Cut(v, "@")
	size, ok := number(left)
	if !ok || right == "" {
		r.reject(p, v1alpha1.KeySegment, v, "a size and a level, such as 4@rack")
		return 0, ""
	}
	return size, right
}

func (r *reader) reject(p *corev1.Pod, k, value, want string) {
	r.problems = append(r.problems, fmt.Sprintf("%s of pod %s is %s: want %s", k, p.Name, quoted(value), want))
}

// number reads a count of members; 0 where it is none.
func number(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > MaxGangSize {
		return 0, false
	}
	return n, true
}
