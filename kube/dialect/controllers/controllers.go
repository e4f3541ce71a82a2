package controllers

import (
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/dialect"
)

// New reads all controllers that are known here.
func New() dialect.Maker { return controllers{} }

type controllers struct{}

// Name is of the reader as a whole.
const Name = "controllers"

func (controllers) Name() string             { return Name }
func (controllers) SchedulerNames() []string { return nil }
func (controllers) Domains() []string        { return nil }
func (controllers) Fields() []dialect.Field  { return nil }
func (controllers) Install() dialect.Install { return dialect.Install{} }
func (controllers) Makes()                   {}

// Of a kind with two versions the newer is read where both are served.
func (controllers) Kinds() []dialect.Kind {
	var out []dialect.Kind
	for _, c := range all {
		for _, version := range c.versions {
			out = append(out, dialect.Kind{GroupVersionKind: schema.GroupVersionKind{Group: c.group, Version: version, Kind: c.kind}, Plural: strings.ToLower(c.kind) + "s", Namespaced: true, Grouping: true})
		}
	}
	return out
}

// controller is one kind of objects that pods are made for.
type controller struct {
	group, kind string
	versions    []string
	// read says what the object makes; unread are fields that ask for something that it does not get, or have another form than is known.
	read func(o *unstructured.Unstructured) (set Set, unread []string)
	// made says for which object the pod was made, nil for none of the kind. top is the topmost controller that the pod, or its
	// controller, names.
	made func(p *dialect.Pod, top *metav1.OwnerReference) *from
}

// from is where a pod comes from.
type from struct {
	name  string // of the object
	role  string // of its parts
	group string // of several alike that the object makes, each a gang by itself; "": it makes one
}

// Set is the pods that an object makes.
type Set struct {
	Parts []Part
	// Least is how many pods start together, whatever their roles; 0: as the parts say.
	Least int
	// OneModel says that they are one server, whose GPUs are of one model.
	OneModel bool
	// Field is where the object says it.
	Field string
	// Meta has the object's labels and annotations.
	Meta metav1.ObjectMeta
}

// Part is the pods of one role.
type Part struct {
	Role  string
	Pods  int // that there will be
	Least int // that start together with those of the other parts of the stage
	// Stage is of parts whose pods exist at one time: those of a later stage are made once others run, or are over. "": the first.
	Stage string
	// Elastic says that their number changes while they run.
	Elastic bool
	// Alone is why they start one by one; "": they do not.
	Alone string
}

// all are the controllers, each in a file of its own: those first that have objects of the others in theirs.
var all = []controller{appWrapper, jobSet, leaderWorkerSet, mpiJob, pyTorchJob, tfJob, xgBoostJob, paddleJob, jaxJob, rayCluster, podGang}

// mostPods bounds what is counted of one object: above it, it is no gang, which is told.
const mostPods = 1_000_000

// maxRoles is how many parts are subgroups; of more, all pods are one group.
const maxRoles = 32

// Trim drops what nobody reads: pod templates are most of such an object.
func (controllers) Trim(o *unstructured.Unstructured) {
	delete(o.Object, "status")
	if a := o.GetAnnotations(); a["kubectl.kubernetes.io/last-applied-configuration"] != "" {
		delete(a, "kubectl.kubernetes.io/last-applied-configuration")
		o.SetAnnotations(a)
	}
	dropTemplates(o.Object["spec"], 0)
}

// dropTemplates drops the pods' specs at any depth; the template of a Job inside, which has counts, stays.
func dropTemplates(at any, depth int) {
	if depth > 16 {
		return
	}
	switch v := at.(type) {
	case map[string]any:
		if spec, ok := v["spec"].(map[string]any); ok && spec["containers"] != nil {
			delete(v, "spec")
		}
		for _, below := range v { //archtest:any-order each is cut by itself
			dropTemplates(below, depth+1)
		}
	case []any:
		for _, below := range v {
			dropTemplates(below, depth+1)
		}
	}
}

func (controllers) Read(o *unstructured.Unstructured, _ dialect.World) dialect.Object {
	for _, c := range all {
		if c.kind != o.GetKind() || c.group != o.GroupVersionKind().Group {
			continue
		}
		set, unread := c.read(o)
		set.Meta = metav1.ObjectMeta{Labels: o.GetLabels(), Annotations: o.GetAnnotations()}
		out := dialect.Object{Value: &set, Unread: append(unread, dialect.KeysThat(o, dialect.Unspoken)...)}
		total := 0
		for _, p := range set.Parts {
			total += min(max(p.Pods, 0), mostPods+1)
		}
		if total > mostPods {
			set.Parts = nil
			out.Problem = fmt.Sprintf("%s: more than %d pods, the limit", set.Field, mostPods)
		}
		return out
	}
	return dialect.Object{}
}

// Pod says which gang the pod is in: nil for one that none of the controllers made.
func (controllers) Pod(p *dialect.Pod, w dialect.World) *dialect.Terms {
	top := topOf(p)
	for i := range all {
		c := &all[i]
		at := c.made(p, top)
		if at == nil || at.name == "" {
			continue
		}
		out := &dialect.Terms{Keys: make(map[string]string), Part: at.group, Group: &dialect.GroupRef{Kind: c.kind + "." + c.group, Namespace: p.Namespace, Name: at.name}}
		o := w.Object(out.Group.Kind, p.Namespace, at.name)
		if o == nil {
			out.Missing = c.kind + " " + at.name
			out.Unread = []string{out.Missing + " is not there or cannot be read: its pods are placed one by one"}
			return out
		}
		set, ok := o.Value.(*Set)
		if ok && len(set.Parts) == 0 && c.kind == appWrapper.kind {
			continue // what is in it says it
		}
		if ok {
			set.join(c, at, out)
		}
		return out
	}
	return Coupled(p)
}

// topOf is the last controller in the chain that somebody names, seen or not.
func topOf(p *dialect.Pod) *metav1.OwnerReference {
	top := metav1.GetControllerOfNoCopy(p.Pod)
	for i := range p.Owners {
		if by := p.Owners[i].By; by != nil {
			top = by
		}
	}
	return top
}

// by says whether the reference is to one of the kind.
func by(ref *metav1.OwnerReference, c *controller) bool {
	if ref == nil || ref.Kind != c.kind {
		return false
	}
	group, _, _ := strings.Cut(ref.APIVersion, "/")
	return group == c.group
}

// join puts the pod into the gang of its stage.
func (s *Set) join(c *controller, at *from, out *dialect.Terms) {
	mine := s.part(at.role)
	if mine == nil {
		return // somebody else's, such as the pod that submits a job to a Ray cluster
	}
	if mine.Alone != "" {
		out.Says = "pods of " + c.kind + " " + at.name + " start one by one: " + mine.Alone
		return
	}
	var stage []Part
	total, roles, elastic := 0, 0, false
	for _, p := range s.Parts {
		if p.Stage == mine.Stage && p.Pods > 0 && p.Alone == "" {
			stage = append(stage, p)
			total += p.Pods
			elastic = elastic || p.Elastic
			if p.Least > 0 {
				roles++
			}
		}
	}
	if total < 2 {
		return
	}
	name := strings.ToLower(c.kind) + "." + at.name
	for _, more := range []string{at.group, mine.Stage} {
		if more != "" {
			name += "." + more
		}
	}
	out.Keys[v1alpha1.KeyGang] = name
	if s.OneModel {
		out.Keys[v1alpha1.KeyGPUModel] = v1alpha1.SameGPUModel
	}
	switch {
	case s.Least > 0 && mine.Stage == "":
		out.Keys[v1alpha1.KeyMin] = strconv.Itoa(min(s.Least, total))
	case len(stage) == 1 || len(stage) > maxRoles:
		if least := sumOf(stage); least < total || elastic {
			out.Keys[v1alpha1.KeyMin] = strconv.Itoa(max(1, least))
		} else {
			out.Keys[v1alpha1.KeySize] = strconv.Itoa(total)
		}
	default:
		out.Keys[v1alpha1.KeySubgroup], out.Keys[v1alpha1.KeyMinSubgroups] = mine.Role, strconv.Itoa(max(1, roles))
		if mine.Least < mine.Pods || mine.Elastic {
			out.Keys[v1alpha1.KeyMin] = strconv.Itoa(max(1, mine.Least))
		} else {
			out.Keys[v1alpha1.KeySize] = strconv.Itoa(mine.Pods)
		}
	}
	out.Least = sumOf(stage)
	if s.Least > 0 && mine.Stage == "" {
		out.Least = min(s.Least, total)
	}
	out.Least = max(1, out.Least)
	out.Says = s.sentence(c, at, stage, total, out.Least)
}

// sentence is what starts together, and where that is said.
func (s *Set) sentence(c *controller, at *from, stage []Part, total, least int) string {
	what := fmt.Sprintf("%d pods", total)
	if least < total {
		what = fmt.Sprintf("%d of %d pods", least, total)
	}
	of := c.kind + " " + at.name
	if at.group != "" {
		of = "group " + at.group + " of " + of
	}
	if len(stage) > 1 {
		var parts []string
		for _, p := range stage[:min(len(stage), 8)] {
			n := strconv.Itoa(p.Pods)
			if p.Least < p.Pods {
				n = strconv.Itoa(p.Least) + " to " + n
			}
			parts = append(parts, p.Role+" "+n)
		}
		if len(stage) > 8 {
			parts = append(parts, fmt.Sprintf("%d more", len(stage)-8))
		}
		of += " (" + strings.Join(parts, ", ") + ")"
	}
	return what + " of " + of + " start together, as " + s.Field + " says"
}

func sumOf(parts []Part) (least int) {
	for _, p := range parts {
		least += p.Least
	}
	return least
}

func (s *Set) part(role string) *Part {
	for i := range s.Parts {
		if s.Parts[i].Role == role {
			return &s.Parts[i]
		}
	}
	return nil
}

// count is a number of pods as objects have it: absent, or out of bounds, it is the other.
func count(n *int64, otherwise int) int {
	if n == nil {
		return otherwise
	}
	return int(min(max(*n, 0), mostPods+1))
}

// times multiplies without leaving the bounds.
func times(a, b int) int { return int(min(int64(a)*int64(b), mostPods+1)) }
