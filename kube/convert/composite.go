package convert

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
)

// A CompositePodGroup is a group of PodGroups and of further CompositePodGroups (Kubernetes 1.37, gate CompositePodGroup,
// k8s.io/api v0.37.1, scheduling/v1alpha3/types.go). The one without a parent is the gang; those below it are its subgroups, and pods
// are in the PodGroups, which are leaves. As upstream's scheduler reads them (k8s.io/kubernetes v1.37.1, pkg/scheduler):
//
//	minimum      gang: minGroupCount children, basic: one; a child counts that has its own minimum
//	             (framework/plugins/gangscheduling/gangscheduling.go, isCPGTreeReady)
//	above it     others are evicted while no pod of the tree that waits fits (schedule_one_podgroup.go, podGroupCycle); here for children of
//	             a basic group alone, where all groups above are basic too (engine.Group.Each)
//	topology     every level by itself, a child within the domain of its parent
//	             (framework/plugins/topologyaware/topology_placement.go)
//	priority     the root's, for all (framework/preemption/util.go, GetPodPriority)
//	disruption   the highest group with the mode All goes as a whole (framework/preemption/types.go, getHighestAllAncestor), but here a
//	             minimum that running groups need goes with all of the tree
//	depth        four levels, PodGroups included (backend/cache/cache.go, BuildHierarchySnapshotFromPod)

// TreeLevels is how many levels of groups there are at most, PodGroups included.
const TreeLevels = schedulingv1alpha3.WorkloadMaxTreeDepth

// CompositeKey is the key of the gang that the CompositePodGroup is, if it has no parent.
func CompositeKey(namespace, name string) string { return namespace + compositeMark + name }

const compositeMark = "/compositepodgroup/"

// IsComposite says whether the key is of a gang that is a CompositePodGroup.
func IsComposite(key string) bool {
	_, rest, _ := strings.Cut(key, "/")
	return strings.HasPrefix("/"+rest, compositeMark)
}

// ParentOf is the name of the group's parent, "" for none.
func ParentOf(g *schedulingv1beta1.PodGroup) string { return text(g.Spec.ParentCompositePodGroupName) }

// ParentOfComposite is the name of the group's parent, "" for none.
func ParentOfComposite(c *schedulingv1alpha3.CompositePodGroup) string {
	return text(c.Spec.ParentCompositePodGroupName)
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// RootKey is the key of the gang that a group with the parent is part of: of the highest composite group that is reached from it. A
// parent that does not exist is the highest. So is, of parents that form a circle, the lowest-named, and of more parents than there
// are levels the first that is too many. find returns the composite group of a key, nil for none.
func RootKey(namespace, parent string, find func(key string) *schedulingv1alpha3.CompositePodGroup) string {
	var seen []string
	for at := parent; ; {
		if i := slices.Index(seen, at); i >= 0 {
			return CompositeKey(namespace, slices.Min(seen[i:]))
		}
		key := CompositeKey(namespace, at)
		c := find(key)
		if c == nil || ParentOfComposite(c) == "" || len(seen) >= TreeLevels {
			return key
		}
		seen = append(seen, at)
		at = ParentOfComposite(c)
	}
}

// Misplaced says why a composite group that RootKey named is no root; "": it is one.
func Misplaced(c *schedulingv1alpha3.CompositePodGroup, find func(key string) *schedulingv1alpha3.CompositePodGroup) string {
	var names []string
	for at := c; ParentOfComposite(at) != ""; {
		names = append(names, at.Name)
		up := ParentOfComposite(at)
		if slices.Contains(names, up) {
			return fmt.Sprintf("CompositePodGroup %s is above itself: its parents form a circle, %s", up, strings.Join(append(names, up), ", "))
		}
		if at = find(CompositeKey(c.Namespace, up)); at == nil || len(names) > TreeLevels {
			break
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("the groups below CompositePodGroup %s are more than %d levels below their root", c.Name, TreeLevels)
}

// Tree is a CompositePodGroup without a parent, and the groups below it.
type Tree struct {
	Root       *schedulingv1alpha3.CompositePodGroup
	Composites []*schedulingv1alpha3.CompositePodGroup
	Groups     []*schedulingv1beta1.PodGroup
	Over       bool // there are more than MaxSubgroups, and not all of them are here
}

// Sort puts groups in the order of their names.
func (t *Tree) Sort() {
	slices.SortFunc(t.Composites, func(a, b *schedulingv1alpha3.CompositePodGroup) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(t.Groups, func(a, b *schedulingv1beta1.PodGroup) int { return strings.Compare(a.Name, b.Name) })
}

// CompositeName is what the composite group below a root is called among the subgroups of the gang. A PodGroup has its own name there.
func CompositeName(name string) string { return "compositepodgroup/" + name }

// Gang is the tree as the engine sees it, without what holds for it over time: see Terms.
func (t *Tree) Gang() engine.Gang {
	root := t.Root
	out := engine.Gang{
		Key:     CompositeKey(root.Namespace, root.Name),
		Version: version(&root.ObjectMeta),
		Queue:   t.asked(v1alpha1.KeyQueue),
		Created: root.CreationTimestamp.UTC(),
		Group:   compositeGroup(root),
	}
	if root.Spec.Priority != nil {
		out.Priority = *root.Spec.Priority
	}
	below := make(map[string]int)
	parent := func(name string) string {
		below[name]++
		if name == root.Name {
			return ""
		}
		return CompositeName(name)
	}
	for _, c := range t.Composites {
		group := compositeGroup(c)
		group.Name, group.Parent = CompositeName(c.Name), parent(ParentOfComposite(c))
		out.Groups = append(out.Groups, group)
	}
	for _, g := range t.Groups {
		leaf := PodGroup(g).Group
		leaf.Name, leaf.Parent = g.Name, parent(ParentOf(g))
		out.Groups = append(out.Groups, leaf)
	}
	for i, c := range t.Composites {
		if below[c.Name] == 0 { // nobody can be in it, and it is not complete before somebody can
			out.Groups[i].Min, out.Groups[i].MinGroups = 1, 0
		}
	}
	if len(out.Groups) == 0 {
		out.Min, out.MinGroups = 1, 0
	}
	slices.SortFunc(out.Groups, func(a, b engine.Group) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Finish leaves out the leaves all of whose pods have succeeded, and groups that have no others: nobody waits for them any more.
func Finish(g *engine.Gang, done map[string]bool) {
	for len(done) > 0 {
		least := map[string]*int{"": &g.MinGroups}
		left := make(map[string]int)
		kept := make([]engine.Group, 0, len(g.Groups))
		for _, c := range g.Groups {
			if !done[c.Name] {
				kept = append(kept, c)
				left[c.Parent]++
			}
		}
		for i := range kept {
			least[kept[i].Name] = &kept[i].MinGroups
		}
		above := make(map[string]bool)
		for _, c := range g.Groups {
			if !done[c.Name] {
				continue
			}
			if n := least[c.Parent]; n != nil && *n > 1 {
				*n--
			}
			if left[c.Parent] == 0 && c.Parent != "" {
				above[c.Parent] = true
			}
		}
		g.Groups, done = kept, above
	}
	if len(g.Groups) == 0 {
		g.Min, g.MinGroups = 1, 0
	}
}

// Capped has no group ask for more groups to start than there are: those that run go on without groups that are gone.
func Capped(g *engine.Gang) {
	below := make(map[string]int)
	for i := range g.Groups {
		below[g.Groups[i].Parent]++
	}
	g.MinGroups = min(g.MinGroups, below[""])
	for i := range g.Groups {
		g.Groups[i].MinGroups = min(g.Groups[i].MinGroups, below[g.Groups[i].Name])
	}
}

// compositeGroup is what the group says of those below it.
func compositeGroup(c *schedulingv1alpha3.CompositePodGroup) engine.Group {
	out := engine.Group{MinGroups: 1, Each: true, Whole: c.Spec.DisruptionMode != nil && c.Spec.DisruptionMode.All != nil}
	if gang := c.Spec.SchedulingPolicy.Gang; gang != nil {
		out.MinGroups, out.Each = int(gang.MinGroupCount), false
	}
	if l := c.Spec.SchedulingConstraints; l != nil && len(l.Topology) > 0 {
		out.Layout.Required = l.Topology[0].Key
	}
	return out
}

// authors are who speaks for the gang: the root, the groups below it, then PodGroups, each by name.
func (t *Tree) authors() []author {
	out := []author{{"CompositePodGroup", &t.Root.ObjectMeta}}
	for _, c := range t.Composites {
		out = append(out, author{"CompositePodGroup", &c.ObjectMeta})
	}
	for _, g := range t.Groups {
		out = append(out, author{"PodGroup", &g.ObjectMeta})
	}
	return out
}

// asked is what the first of the authors has under the key.
func (t *Tree) asked(key string) string {
	for _, a := range t.authors() {
		if v := asked(a.ObjectMeta, key); v != "" {
			return v
		}
	}
	return ""
}

// Evictable says whether all groups of the tree let pods be evicted for others.
func (t *Tree) Evictable() bool {
	return !slices.ContainsFunc(t.authors(), func(a author) bool { return !Evictable(a.ObjectMeta) })
}

// Terms fills in what holds over time for the gang, and what of the tree cannot be read. started says that members have nodes: then
// nothing that happens to groups keeps others from following.
func (t *Tree) Terms(out *engine.Gang, pods []*corev1.Pod, started bool) {
	pods = slices.SortedFunc(slices.Values(pods), func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	authors, members := t.authors(), 0
	for _, g := range t.Groups {
		members += PodGroup(g).Min
	}
	problems := t.problems(started)
	if t.Over {
		problems = append(problems, fmt.Sprintf("groups below it: more than %d, the limit", MaxSubgroups))
	}
	says := make([]*metav1.ObjectMeta, len(authors))
	for i := range authors {
		says[i] = authors[i].ObjectMeta
	}
	problems = append(problems, gangLimits(out, pods, says...)...)
	problems = append(problems, gangTerms(out, pods, min(members, MaxGangSize), authors...)...)
	if policy := t.Root.Spec.PreemptionPolicy; policy != nil {
		out.Terms.Patient = *policy == schedulingv1alpha3.PreemptNever
	}
	out.Invalid = said(problems)
	if t.Over {
		out.Groups, out.MinGroups, out.Min = nil, 0, 1 // it is invalid, and not kept at its size
	}
}

// problems says what of the tree upstream calls invalid: too many levels. A tree with a group that is being deleted does not start.
// Which Workloads the groups were made of does not matter: upstream's scheduler does not look.
func (t *Tree) problems(started bool) (out []string) {
	parents := make(map[string]string, len(t.Composites))
	for _, c := range t.Composites {
		parents[c.Name] = ParentOfComposite(c)
	}
	for _, c := range t.Composites {
		levels := 1
		for at := c.Name; at != "" && levels <= TreeLevels; at = parents[at] {
			levels++
		}
		if levels > TreeLevels { // with the PodGroups that it is for
			out = append(out, fmt.Sprintf("CompositePodGroup %s is too far below %s: groups have %d levels at most, PodGroups included", c.Name, t.Root.Name, TreeLevels))
			break
		}
	}
	if started {
		return out
	}
	for _, c := range append([]*schedulingv1alpha3.CompositePodGroup{t.Root}, t.Composites...) {
		if c.DeletionTimestamp != nil {
			return append(out, fmt.Sprintf("CompositePodGroup %s is being deleted", c.Name))
		}
	}
	return out
}
