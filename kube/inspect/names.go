package inspect

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/internal/spelling"
	"github.com/berth-dev/berth/kube/inspect/mask"
)

// names are what objects in the facts are called, or call others that may not exist.
type names struct {
	private map[string]bool // of somebody's: replaced where names are redacted
	public  map[string]bool // of Kubernetes', of other systems', and of what says what something is
	// values of labels by their keys: what nodes have, and what is asked of nodes.
	have, want map[string]map[string]bool
	objects    map[string]bool // names of objects that exist
	odd        map[string]bool // values of labels that read like secrets
}

// namesIn are the names in the facts.
func namesIn(f *facts.Facts) *names {
	n := &names{private: make(map[string]bool), public: make(map[string]bool), have: make(map[string]map[string]bool), want: make(map[string]map[string]bool), objects: make(map[string]bool), odd: make(map[string]bool)}
	for _, k := range f.Objects.Kinds() {
		for _, o := range k.List(&f.Objects) {
			n.learn(k, o)
		}
	}
	return n
}

// all are those that may be in a text.
func (n *names) all() map[string]bool {
	m := make(map[string]bool, len(n.private)+len(n.public))
	for _, from := range []map[string]bool{n.public, n.private} {
		for name := range from {
			m[name] = true
		}
	}
	return m
}

func enter(to map[string]map[string]bool, key, value string) {
	if to[key] == nil {
		to[key] = make(map[string]bool)
	}
	to[key][value] = true
}

// misspelt are the values that are asked for and no node has, with the value of nodes that is written most like it; and those
// that nodes have and nobody asks for, with the one that is asked for, which other nodes have. Under their new names nobody could
// see that one is a typo of the other. Keys with more values than can be compared have none.
func (n *names) misspelt() map[string]string {
	out, meant := make(map[string]string), make(map[string]bool)
	note := func(value, best string) {
		if best != "" && out[best] == "" && !meant[value] { // no chains, and no circles between keys
			out[value], meant[best] = best, true
		}
	}
	left := mostLikened
	keys := slices.DeleteFunc(slices.Sorted(maps.Keys(n.want)), func(key string) bool {
		pairs := len(n.want[key]) * len(n.have[key])
		if pairs > left {
			return true
		}
		left -= pairs
		return false
	})
	for _, key := range keys {
		for _, value := range slices.Sorted(maps.Keys(n.want[key])) {
			if !n.have[key][value] {
				note(value, mostLike(value, n.have[key]))
			}
		}
	}
	for _, key := range keys {
		both := make(map[string]bool)
		for value := range n.want[key] {
			both[value] = n.have[key][value]
		}
		maps.DeleteFunc(both, func(_ string, had bool) bool { return !had })
		for _, value := range slices.Sorted(maps.Keys(n.have[key])) {
			if !n.want[key][value] {
				note(value, mostLike(value, both))
			}
		}
	}
	return out
}

// mostLike is the one of the values that is written most like the value, "" where none is nearly the same.
func mostLike(value string, of map[string]bool) string {
	best, least := "", 3
	for other := range of {
		if d := distance(strings.ToLower(value), strings.ToLower(other)); d < least && d*4 <= max(len(value), len(other)) || d == least && other < best {
			best, least = other, d
		}
	}
	return best
}

// mostLikened bounds how many parts of names are held against each other, which takes a second or so.
const mostLikened = 10_000_000

// misspeltParts are the parts of names that refer to nothing, and are part of no object's name, with the part of an
// object's name that is written most like each. They are empty where there are too many to compare.
func (n *names) misspeltParts() map[string]string {
	known, odd := make(map[string]bool), make(map[string]bool)
	for name := range n.objects {
		for _, part := range run.FindAllString(name, -1) {
			known[part] = true
		}
	}
	for name := range n.private {
		if n.objects[name] {
			continue
		}
		for _, part := range run.FindAllString(name, -1) {
			if !known[part] && len(part) > 3 && !number.MatchString(part) {
				odd[part] = true
			}
		}
	}
	out := make(map[string]string)
	if len(known)*len(odd) > mostLikened {
		return out
	}
	have := slices.Sorted(maps.Keys(known))
	for part := range odd {
		least := 3
		for _, other := range have {
			if d := distance(part, other); d < least && d*4 <= max(len(part), len(other)) {
				out[part], least = other, d
			}
		}
	}
	return out
}

// distance is how many letters two words differ by; 3: they are different words.
func distance(a, b string) int {
	if d, near := spelling.Within(a, b, 2); near {
		return d
	}
	return 3
}

// objectName is what can be the name of an object, or of something in it.
var objectName = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9._/:@-]{0,251}[A-Za-z0-9])?$`)

// add enters a name, unless it is one of the words that messages are made of: to replace that would make them
// unreadable. What looks like a credential is nobody's name.
func (n *names) add(to map[string]bool, name string) {
	if name != "" && !to[name] && !ordinary[name] && !number.MatchString(name) && !strings.HasPrefix(name, "system:") && objectName.MatchString(name) && !mask.Looks(name) {
		to[name] = true
	}
}

// learn enters the names of an object.
func (n *names) learn(k *facts.KindInfo, o facts.Object) {
	space := o.GetNamespace()
	to := n.private
	if slices.Contains(kept, k.Kind) || k.Kind == "Namespace" && ours.MatchString(o.GetName()) || ours.MatchString(space) && space != "default" {
		to = n.public
	}
	if ours.MatchString(space) {
		n.add(n.public, space)
	} else {
		n.add(n.private, space)
	}
	if k.Kind != "Event" {
		n.add(to, o.GetName())
		n.objects[o.GetName()] = true
	}
	for key, value := range o.GetLabels() {
		n.label(to, key, value)
	}
	n.details(to, o)
}

// label enters the value of a label. Words stay words: gpu=true replaces no "true".
func (n *names) label(to map[string]bool, key, value string) {
	switch {
	case value == "" || to[value] || n.odd[value] || mask.Sensitive(key[strings.LastIndexByte(key, '/')+1:]) && !hashes[key]:
	case hardware(key):
		n.add(n.public, value)
	case !hashes[key] && harmful(value):
		n.odd[value] = true
	case personal(key) || !mask.Vocabulary(value):
		n.add(to, value)
	}
}

// masks are what stands for values of labels that read like secrets: different ones for different values, or selectors
// would find what they did not.
func (n *names) masks() map[string]string {
	out := make(map[string]string, len(n.odd))
	for i, value := range slices.Sorted(maps.Keys(n.odd)) {
		out[value] = masked + "-" + strconv.Itoa(i+1)
	}
	return out
}

// harmful says whether a value that nobody vouches for may be a secret.
func harmful(s string) bool {
	var m mask.Masker
	return m.Find(s)
}

func (n *names) details(to map[string]bool, o facts.Object) {
	switch o := o.(type) {
	case *corev1.Pod:
		n.pod(to, &o.Spec)
		n.add(n.private, o.Status.NominatedNodeName)
	case *corev1.Node:
		n.node(o)
	case *corev1.Event:
		for _, at := range nominated.FindAllStringSubmatch(o.Message, -1) {
			n.add(n.private, at[1])
		}
		if space := o.InvolvedObject.Namespace; space != "" && (!ours.MatchString(space) || space == "default") {
			n.add(n.private, o.InvolvedObject.Name)
		} else {
			n.add(n.public, o.InvolvedObject.Name)
		}
	case *corev1.PersistentVolumeClaim:
		n.add(n.private, o.Spec.VolumeName)
		if o.Spec.StorageClassName != nil {
			n.add(n.public, *o.Spec.StorageClassName)
		}
	case *corev1.ConfigMap:
		for _, at := range groupName.FindAllStringSubmatch(o.Data["status"], -1) {
			n.group(at[1])
		}
	case *storagev1.StorageClass:
		n.add(n.public, o.Provisioner)
	case *storagev1.CSINode:
		for _, d := range o.Spec.Drivers {
			n.add(n.public, d.Name)
		}
	case *admissionv1.ValidatingWebhookConfiguration:
		for i := range o.Webhooks {
			n.webhook(o.Webhooks[i].Name, o.Webhooks[i].ClientConfig.Service)
		}
	case *admissionv1.MutatingWebhookConfiguration:
		for i := range o.Webhooks {
			n.webhook(o.Webhooks[i].Name, o.Webhooks[i].ClientConfig.Service)
		}
	case *appsv1.Deployment:
		n.pod(to, &o.Spec.Template.Spec)
	case *appsv1.ReplicaSet:
		n.pod(to, &o.Spec.Template.Spec)
	case *appsv1.StatefulSet:
		for i := range o.Spec.VolumeClaimTemplates { // the names of its claims begin with theirs
			n.add(to, o.Spec.VolumeClaimTemplates[i].Name)
		}
		n.pod(to, &o.Spec.Template.Spec)
	case *appsv1.DaemonSet:
		n.pod(to, &o.Spec.Template.Spec)
	case *batchv1.Job:
		n.pod(to, &o.Spec.Template.Spec)
	case *batchv1.CronJob:
		n.pod(to, &o.Spec.JobTemplate.Spec.Template.Spec)
	case *unstructured.Unstructured:
		n.tree(to, "", o.Object)
	}
}

// groupName finds the names of node groups in what the cluster-autoscaler says, in its old and in its new form.
var groupName = regexp.MustCompile(`(?m)^\s*-?\s*[nN]ame:\s+"?([^\s"]+)"?\s*$`)

// nominated finds the machine that Karpenter makes for a pod: who may not read NodeClaims learns of it by this alone.
var nominated = regexp.MustCompile(`^Pod should schedule on: (?:nodeclaim|node)/([a-z0-9.-]{1,253})`)

// group enters the name of a node group; where it is the address of one, its last part too.
func (n *names) group(name string) {
	n.add(n.private, name)
	if last := name[strings.LastIndexByte(name, '/')+1:]; last != name {
		n.add(n.private, last)
		n.add(n.private, strings.TrimSuffix(last, "-grp"))
	}
}

func (n *names) webhook(name string, s *admissionv1.ServiceReference) {
	n.add(n.public, name)
	if s != nil {
		n.add(n.public, s.Name)
		n.add(n.public, s.Namespace)
	}
}

func (n *names) node(o *corev1.Node) {
	for key, value := range o.Labels {
		if !hardware(key) && key != corev1.LabelHostname {
			enter(n.have, key, value)
		}
	}
	for _, a := range o.Status.Addresses {
		if a.Type != corev1.NodeInternalIP && a.Type != corev1.NodeExternalIP {
			n.add(n.private, a.Address)
		}
	}
	for _, t := range o.Spec.Taints {
		n.label(n.private, t.Key, t.Value)
		n.add(n.public, t.Key)
	}
	for name := range o.Status.Capacity {
		n.add(n.public, string(name))
	}
}

// pod enters what a pod is made of and refers to.
func (n *names) pod(to map[string]bool, s *corev1.PodSpec) {
	n.add(n.private, s.NodeName)
	n.add(n.public, s.SchedulerName)
	n.add(n.public, s.PriorityClassName)
	n.add(to, s.ServiceAccountName)
	n.add(to, s.Subdomain)
	n.add(to, s.Hostname)
	if s.RuntimeClassName != nil {
		n.add(n.public, *s.RuntimeClassName)
	}
	if g := s.SchedulingGroup; g != nil && g.PodGroupName != nil {
		n.add(to, *g.PodGroupName)
	}
	for _, r := range s.ImagePullSecrets {
		n.add(to, r.Name)
	}
	for key, value := range s.NodeSelector {
		n.label(n.private, key, value)
		enter(n.want, key, value)
	}
	if s.Affinity != nil && s.Affinity.NodeAffinity != nil && s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, t := range s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			for _, e := range t.MatchExpressions {
				for _, value := range e.Values {
					n.label(n.private, e.Key, value)
					enter(n.want, e.Key, value)
				}
			}
		}
	}
	for i := range s.Tolerations {
		n.label(n.private, s.Tolerations[i].Key, s.Tolerations[i].Value)
	}
	for i := range s.Volumes {
		n.volume(to, &s.Volumes[i])
	}
	for i := range s.ResourceClaims {
		c := &s.ResourceClaims[i]
		n.add(to, c.Name)
		if c.ResourceClaimName != nil {
			n.add(to, *c.ResourceClaimName)
		}
		if c.ResourceClaimTemplateName != nil {
			n.add(to, *c.ResourceClaimTemplateName)
		}
	}
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			n.container(to, &list[i])
		}
	}
}

func (n *names) volume(to map[string]bool, v *corev1.Volume) {
	n.add(to, v.Name)
	switch {
	case v.Secret != nil:
		n.add(to, v.Secret.SecretName)
	case v.ConfigMap != nil:
		n.add(to, v.ConfigMap.Name)
	case v.PersistentVolumeClaim != nil:
		n.add(to, v.PersistentVolumeClaim.ClaimName)
	case v.CSI != nil:
		n.add(n.public, v.CSI.Driver)
	case v.Projected != nil:
		for _, s := range v.Projected.Sources {
			if s.Secret != nil {
				n.add(to, s.Secret.Name)
			}
			if s.ConfigMap != nil {
				n.add(to, s.ConfigMap.Name)
			}
		}
	}
}

func (n *names) container(to map[string]bool, c *corev1.Container) {
	n.add(to, c.Name)
	n.images(c.Image)
	for name := range c.Resources.Limits {
		n.add(n.public, string(name))
	}
	for name := range c.Resources.Requests {
		n.add(n.public, string(name))
	}
	for i := range c.EnvFrom {
		if r := c.EnvFrom[i].SecretRef; r != nil {
			n.add(to, r.Name)
		}
		if r := c.EnvFrom[i].ConfigMapRef; r != nil {
			n.add(to, r.Name)
		}
	}
	for i := range c.Env {
		v := c.Env[i].ValueFrom
		if v == nil {
			continue
		}
		if r := v.SecretKeyRef; r != nil {
			n.add(to, r.Name)
			n.add(n.public, r.Key)
		}
		if r := v.ConfigMapKeyRef; r != nil {
			n.add(to, r.Name)
			n.add(n.public, r.Key)
		}
	}
}

// images enters an image by its full name and without its version; messages have both. Redaction has its own way with
// images, so they are among the public names.
func (n *names) images(image string) {
	if n.public[image] || !reference.MatchString(image) || mask.Looks(image) {
		return
	}
	bare, _, _ := strings.Cut(image, "@")
	n.add(n.public, image)
	n.add(n.public, bare)
	if at := strings.LastIndexByte(bare, ':'); at > strings.LastIndexByte(bare, '/') {
		n.add(n.public, bare[:at])
	}
	n.add(n.public, "docker.io/library/"+image)
	n.add(n.public, "docker.io/"+image)
	if host, _, ok := strings.Cut(bare, "/"); ok && strings.Contains(host, ".") {
		n.add(n.public, host)
	}
}

// foreignNames are fields of objects of other projects that name something.
var foreignNames = map[string]bool{
	"name": true, "namespace": true, "queue": true, "queueName": true, "clusterQueue": true, "localQueue": true, "parentQueue": true, "cohort": true, "cohortName": true, "flavor": true, "topologyName": true, "secretName": true, "configMapName": true, "claimName": true,
	"nodeName": true, "priorityClassName": true, "runtimeClassName": true, "serviceAccountName": true, "schedulerName": true, "id": true, "zone": true, "availabilityZone": true, "instanceType": true, "provisioningClassName": true, "controllerName": true,
}

func (n *names) tree(to map[string]bool, key string, v any) {
	switch v := v.(type) {
	case string:
		if foreignNames[key] && !harmful(v) {
			n.add(n.public, v) // if it is a tenant's, it is learned from its own object too
		}
		if key == "image" {
			n.images(v)
		}
	case []any:
		for _, item := range v {
			n.tree(to, key, item)
		}
	case map[string]any:
		about, _ := v["key"].(string)
		values, _ := v["values"].([]any)
		for _, value := range values {
			if s, ok := value.(string); ok && about != "" && isName(s) && !harmful(s) {
				n.label(n.private, about, s)
				enter(n.have, about, s)
			}
		}
		for k, item := range v {
			if s, ok := item.(string); ok && labelFields[key] && isName(s) && !harmful(s) {
				n.label(n.private, k, s)
				enter(n.have, k, s)
			}
			if !gone[k] {
				n.tree(to, k, item)
			}
		}
	}
}
