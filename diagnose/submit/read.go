package submit

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/submit/workload"
	"github.com/berth-dev/berth/kube/convert"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/all"
)

// letIn says which suspended Jobs a queue lets in, by the dialects that are spoken.
func (c *checker) letIn() func(*metav1.ObjectMeta) bool {
	return func(job *metav1.ObjectMeta) bool {
		return slices.ContainsFunc(all.Dialects(), func(d dialect.Dialect) bool {
			a, ok := d.(dialect.Admitter)
			return ok && slices.Contains(c.world.Model.Dialects, d.Name()) && a.Queued(job)
		})
	}
}

// runtimeIn finds the runtimes that TrainJobs name: in the manifests, else in the cluster. Of a fleet, those that Kubeflow Trainer installs
// are there.
func (c *checker) runtimeIn(namespace string, items []Item) func(kind, namespace, name string) *unstructured.Unstructured {
	const group = "trainer.kubeflow.org"
	return func(kind, in, name string) *unstructured.Unstructured {
		for i := range items {
			u := &unstructured.Unstructured{Object: items[i].Object}
			if u.GetKind() == kind && u.GroupVersionKind().Group == group && u.GetName() == name && (kind == "ClusterTrainingRuntime" || cmp.Or(u.GetNamespace(), namespace) == in) {
				return u
			}
		}
		if kind == "ClusterTrainingRuntime" {
			in = ""
		}
		if u := c.world.Facts.ForeignNamed(kind+"."+group, in, name); u != nil || !c.world.Bare || kind != "ClusterTrainingRuntime" {
			return u
		}
		u := workload.InstalledRuntime(name)
		if text := fmt.Sprintf("ClusterTrainingRuntime %s is there as Kubeflow Trainer installs it", name); u != nil && !slices.Contains(c.assumes, text) {
			c.assumes = append(c.assumes, text)
		}
		return u
	}
}

// read makes workloads of the manifests, and returns all objects that they add to the facts.
func (c *checker) read(namespace string, items []Item) []facts.Object {
	uid := func() types.UID {
		c.uids++
		return types.UID(fmt.Sprintf("submitted-%d", c.uids))
	}
	left := workload.MostInAll
	o := workload.Options{At: c.world.Facts.At, Namespace: namespace, Nodes: c.world.Facts.Nodes, UID: uid, Budget: &left, LetIn: c.letIn(), Runtime: c.runtimeIn(namespace, items), Volcano: c.spoken("volcano"), Queues: c.queuesOfVolcano(items)}
	var objects []facts.Object
	var claims []*corev1.PersistentVolumeClaim
	for i := range items {
		item := &items[i]
		if c.world.Bare && item.Refused == "" {
			item.Refused, item.RefusedBy = unserved(item.Object), "validation"
			c.assumeServed(item.Object)
		}
		w, object, err := workload.Of(item.Object, o)
		if err == nil {
			err = nameless(item.Object, w != nil)
		}
		if err == nil && known(item.Object, w != nil) {
			if err = workload.InvalidMeta(object); err != nil {
				err = fmt.Errorf("%w: the API server refuses it", err)
			} else if c.world.Bare { // elsewhere the API server was asked, or may be of another version
				err = workload.UnknownField(item.Object)
			}
		}
		switch {
		case err != nil && item.Refused != "": // by the API server, which knows more
			c.subs = append(c.subs, &submission{item: item, Workload: &workload.Workload{Ref: refOf(item.Object, namespace)}})
		case err != nil:
			c.subs = append(c.subs, &submission{item: item, Workload: &workload.Workload{Ref: refOf(item.Object, namespace)}, result: Workload{
				Verdict: Never, Cause: Invalid, Owner: check.User, Layer: check.L4, Summary: err.Error(),
			}})
		case w == nil && item.Refused != "":
			c.subs = append(c.subs, &submission{item: item, Workload: &workload.Workload{Ref: facts.RefTo(object)}})
		case w == nil:
			objects = append(objects, object)
			if text := notPlanned(object); text != "" {
				c.unplanned[item] = text
			}
			if workload.IsDomain(object) {
				if t := workload.ChannelTemplate(object, uid()); t != nil && c.controlled(t) {
					objects = append(objects, t)
				}
			}
			if claim, ok := object.(*corev1.PersistentVolumeClaim); ok {
				claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
				claims = append(claims, claim)
			}
		default:
			c.subs = append(c.subs, &submission{item: item, Workload: w})
			if w.Unplanned != "" {
				c.unplanned[item] = w.Unplanned
			}
			if w.Guess != "" {
				c.assumes = append(c.assumes, w.Guess)
			}
		}
	}
	defaults := with(c.world.Facts, objects) // classes and ranges that are in the manifests themselves count
	if c.world.Bare {
		assumed, said := c.assume(defaults)
		objects, c.assumes = append(objects, assumed...), append(c.assumes, said...)
		defaults = with(c.world.Facts, objects)
	}
	for _, o := range objects {
		workload.FillClass(o, defaults)
	}
	for _, claim := range claims {
		bindByName(claim, defaults.PersistentVolumes)
	}
	for _, s := range c.subs {
		templates := make(map[string]bool) // that were looked at
		if s.Object != nil && s.item.Admitted == nil {
			s.fault = workload.Invalid(s.Object)
		}
		for i := range s.Parts {
			c.admit(s, &s.Parts[i], defaults)
			p := &s.Parts[i]
			of := p.Template
			if p.Made { // from several of which there may be pods
				of += " " + p.Name
			}
			if len(p.Pods) > 0 && s.item.Admitted[p.Template] == nil && !templates[of] {
				templates[of] = true
				s.fault = s.fault.And(workload.Refused(p))
			}
			if len(p.Pods) > 0 {
				s.fault = s.fault.And(workload.Unpullable(p))
			}
			s.pods = append(s.pods, s.Parts[i].Pods...)
		}
		if s.Object != nil {
			for _, o := range objectsOf(s.Workload) {
				workload.FillClass(o, defaults)
				objects = append(objects, o)
			}
		}
	}
	return objects
}

// queuesOfVolcano are the Queues of the manifests, without what they say of their status, which an API server drops, and those of the cluster
// that they do not replace.
func (c *checker) queuesOfVolcano(items []Item) (out workload.Queues) {
	const kind, group = "Queue", "scheduling.volcano.sh"
	given := make(map[string]bool)
	for i := range items {
		u := &unstructured.Unstructured{Object: items[i].Object}
		if u.GetKind() == kind && u.GroupVersionKind().Group == group && !given[u.GetName()] {
			given[u.GetName()] = true
			u = u.DeepCopy()
			delete(u.Object, "status")
			out = append(out, u)
		}
	}
	for _, u := range c.world.Facts.Foreign[kind+"."+group] {
		if !given[u.GetName()] {
			out = append(out, u)
		}
	}
	return out
}

// nameless is the error of an object that has no name and is to have none made for it: the API server refuses it. Of kinds that neither
// Kubernetes nor Berth knows it is not said, as files that are configuration of a program look like objects too.
func nameless(object map[string]any, work bool) error {
	u := unstructured.Unstructured{Object: object}
	if u.GetName() != "" || u.GetGenerateName() != "" || !known(object, work) {
		return nil
	}
	return errors.New("it has no metadata.name: the API server refuses an object without a name")
}

// known says whether the object is one for an API server as far as can be told: it has work, or is of a kind that Kubernetes or Berth has.
func known(object map[string]any, work bool) bool {
	u := unstructured.Unstructured{Object: object}
	kind := u.GroupVersionKind()
	return work || facts.KindOf(kind.Group, kind.Kind) != nil
}

// optional are versions of Kubernetes' own groups that Kubernetes 1.37 serves where its API server is told to.
var optional = []string{"resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2"}

// assumeServed notes that the API server serves a version that it need not serve.
func (c *checker) assumeServed(object map[string]any) {
	u := unstructured.Unstructured{Object: object}
	text := fmt.Sprintf("the API server serves %s, which Kubernetes 1.37 does where --runtime-config says so", u.GetAPIVersion())
	if slices.Contains(optional, u.GetAPIVersion()) && !slices.Contains(c.assumes, text) {
		c.assumes = append(c.assumes, text)
	}
}

// controlled says whether the template will be made by the controller of its domain: where there is no cluster, or one in which nobody has made
// it yet.
func (c *checker) controlled(t *resourcev1.ResourceClaimTemplate) bool {
	return place.Named(c.world.Facts.ResourceClaimTemplates, t.Namespace, t.Name) == nil
}

// gone are versions of Kubernetes' own groups that Kubernetes 1.37 does not serve, as manifests still have them.
var gone = []string{
	"apps/v1beta1", "apps/v1beta2", "autoscaling/v2beta1", "autoscaling/v2beta2", "batch/v1beta1", "batch/v2alpha1", "extensions/v1beta1", "policy/v1beta1",
	"resource.k8s.io/v1alpha1", "resource.k8s.io/v1alpha2", "scheduling.k8s.io/v1alpha1", "scheduling.k8s.io/v1alpha2",
}

// unserved is why an API server that has nothing but Kubernetes refuses the object, "" for nothing.
func unserved(object map[string]any) string {
	u := unstructured.Unstructured{Object: object}
	if !slices.Contains(gone, u.GetAPIVersion()) {
		return ""
	}
	return fmt.Sprintf("Kubernetes 1.37 has no kind %s of %s", u.GetKind(), u.GetAPIVersion())
}

// bindByName binds a claim to the volume that it names, or that names it: none has to be provisioned or chosen.
func bindByName(claim *corev1.PersistentVolumeClaim, volumes []*corev1.PersistentVolume) {
	for _, v := range volumes {
		r := v.Spec.ClaimRef
		reserved := r != nil && r.Namespace == claim.Namespace && r.Name == claim.Name
		if !reserved && (claim.Spec.VolumeName != v.Name || r != nil) {
			continue
		}
		claim.Spec.VolumeName, claim.Status.Phase = v.Name, corev1.ClaimBound
		claim.Status.AccessModes, claim.Status.Capacity = v.Spec.AccessModes, v.Spec.Capacity
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, "pv.kubernetes.io/bind-completed", "yes")
		return
	}
}

// notPlanned is why no pods were planned for an object that may have some: one of a kind that neither Kubernetes has itself nor Berth
// reads as one without pods. "": it has none.
func notPlanned(o facts.Object) string {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return ""
	}
	kind := u.GroupVersionKind()
	asks := ""
	if device := deviceIn(u.Object); device != "" {
		asks = ", which asks for " + device + ","
	}
	switch {
	case kind.Group == "berth.dev" || builtIn(kind.Group) || workload.Pattern(kind.GroupKind()) || workload.IsDomain(o):
		return ""
	case kind.Group == "trainer.kubeflow.org" && kind.Kind == "TrainJob":
		of, name := workload.RuntimeOf(u)
		if name == "" {
			return fmt.Sprintf("%s%s has no pods here: it names no runtime", facts.RefTo(o), asks)
		}
		return fmt.Sprintf("%s%s has no pods here: %s %s is not there", facts.RefTo(o), asks, of, name)
	case made(kind) || kind.Group == "ray.io":
		return fmt.Sprintf("%s%s has no pods here: no pod template of it is in the manifests", facts.RefTo(o), asks)
	case facts.KindOf(kind.Group, kind.Kind) != nil || slices.ContainsFunc(all.Dialects(), func(d dialect.Dialect) bool { return hasKind(d.Kinds(), kind) }):
		return ""
	}
	for _, d := range all.Dialects() { // a setting of the project's own controllers
		if slices.ContainsFunc(d.Kinds(), func(k dialect.Kind) bool { return k.Group == kind.Group }) {
			return fmt.Sprintf("%s%s is not read, and nothing that it says has an effect: docs/from-%s.md lists what is read", facts.RefTo(o), asks, d.Name())
		}
	}
	return fmt.Sprintf("%s%s was not planned: which pods kind %s of %s has is not known", facts.RefTo(o), asks, kind.Kind, kind.Group)
}

// made says whether pods are made of objects of the kind.
func made(kind schema.GroupVersionKind) bool {
	return slices.ContainsFunc(all.Readers(), func(d dialect.Dialect) bool {
		_, makes := d.(dialect.Maker)
		return makes && kind.Kind != "PodGang" && hasKind(d.Kinds(), kind)
	})
}

func hasKind(kinds []dialect.Kind, kind schema.GroupVersionKind) bool {
	return slices.ContainsFunc(kinds, func(k dialect.Kind) bool { return k.GroupKind() == kind.GroupKind() })
}

// builtIn says whether the API group is one of Kubernetes' own. Of those that end in k8s.io, projects have some too.
func builtIn(group string) bool {
	name, ok := strings.CutSuffix(group, ".k8s.io")
	return !strings.Contains(group, ".") || ok && slices.Contains([]string{
		"admissionregistration", "apiextensions", "apiregistration", "authentication", "authorization", "rbac.authorization", "certificates", "coordination", "discovery",
		"events", "flowcontrol.apiserver", "gateway.networking", "metrics", "networking", "node", "resource", "scheduling", "storage", "storagemigration", "snapshot.storage",
	}, name)
}

// deviceIn is a device that the object asks for under limits or requests somewhere; "": none.
func deviceIn(v any) string {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if list, ok := v[key].(map[string]any); ok && (key == "limits" || key == "requests") {
				for _, name := range slices.Sorted(maps.Keys(list)) {
					if podspec.Extended(corev1.ResourceName(name)) {
						return name
					}
				}
			}
			if found := deviceIn(v[key]); found != "" {
				return found
			}
		}
	case []any:
		for _, item := range v {
			if found := deviceIn(item); found != "" {
				return found
			}
		}
	}
	return ""
}

func refOf(object map[string]any, namespace string) facts.Ref {
	r := facts.Ref{Namespace: namespace}
	r.Kind, _ = object["kind"].(string)
	if meta, ok := object["metadata"].(map[string]any); ok {
		r.Name, _ = meta["name"].(string)
		if n, ok := meta["namespace"].(string); ok {
			r.Namespace = n
		}
	}
	return r
}

// admit gives the part's pods, and the template of their maker, what the API server would give them. They are alike, so it
// is worked out for the first of them.
func (c *checker) admit(s *submission, p *workload.Part, f *facts.Facts) {
	like := s.item.Admitted[p.Template]
	fill := func(pod *corev1.Pod) {
		if like != nil {
			asAdmitted(pod, like)
			return
		}
		workload.Fill(pod, f)
		if c.world.Bare {
			workload.TolerateDevices(pod)
			c.route(s, pod, f)
		} else {
			f.Admit(pod)
		}
	}
	if len(p.Pods) == 0 {
		return
	}
	fill(p.Pods[0])
	for _, pod := range p.Pods[1:] {
		asAdmitted(pod, p.Pods[0])
	}
	if t := facts.TemplateOf(p.Maker); t != nil {
		filled := &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
		filled.Namespace = s.Ref.Namespace
		fill(filled)
		t.Spec, t.Labels, t.Annotations = filled.Spec, filled.Labels, filled.Annotations
	}
}

// route gives a pod that names no scheduler the one that the admission policies of the dialects that are spoken give it: pods of Ray's
// objects that name a queue, and those of PodGroups and namespaces with an ElasticQuota. Pods that HAMi's webhook would take are Berth's.
func (c *checker) route(s *submission, pod *corev1.Pod, f *facts.Facts) {
	if pod.Spec.SchedulerName != corev1.DefaultSchedulerName {
		return
	}
	if c.forHAMi(pod, f) {
		pod.Spec.SchedulerName = oursOf(c.world.Model)[0]
		if text := "HAMi's webhook, which names the scheduler of pods that ask HAMi for GPUs, names " + pod.Spec.SchedulerName; !slices.Contains(c.assumes, text) {
			c.assumes = append(c.assumes, text)
		}
		return
	}
	var labels map[string]string // of an object of Ray's
	if u, ok := s.Object.(*unstructured.Unstructured); ok && u.GroupVersionKind().Group == "ray.io" {
		labels = u.GetLabels()
	}
	quota := slices.ContainsFunc(f.Foreign["ElasticQuota.scheduling.x-k8s.io"], func(q *unstructured.Unstructured) bool { return q.GetNamespace() == pod.Namespace })
	for _, by := range []struct {
		dialect string
		its     bool
	}{
		{"kai", labels["kai.scheduler/queue"] != ""},
		{"volcano", labels["volcano.sh/queue-name"] != ""},
		{"coscheduling", labels["ray.io/gang-scheduling-enabled"] != "" || quota || pod.Labels["scheduling.x-k8s.io/pod-group"] != "" || pod.Labels["pod-group.scheduling.sigs.k8s.io/name"] != ""},
	} {
		if d := all.Find(by.dialect); by.its && c.spoken(by.dialect) && d != nil {
			pod.Spec.SchedulerName = d.SchedulerNames()[0]
			return
		}
	}
}

// forHAMi says whether HAMi's webhook takes the pod: HAMi gives the GPUs of a node, and the pod asks for a part of one, or for GPUs by HAMi's
// keys. Whole GPUs alone are the same to any scheduler.
func (c *checker) forHAMi(pod *corev1.Pod, f *facts.Facts) bool {
	return convert.AsksHAMi(pod) && slices.ContainsFunc(f.Nodes, convert.GivenByHAMi)
}

// asAdmitted takes from a pod of the same template that was admitted what webhooks, admission and defaults put there, and
// leaves what is of the pod's own number: where a DaemonSet pins it, and the volumes of its ordinal.
func asAdmitted(p, like *corev1.Pod) {
	spec := *like.Spec.DeepCopy()
	spec.NodeName, spec.Hostname = p.Spec.NodeName, p.Spec.Hostname
	if p.Spec.Affinity != nil && p.Spec.Affinity.NodeAffinity != nil {
		spec.Affinity = p.Spec.Affinity
	}
	own := p.Spec.Volumes
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool {
		return slices.ContainsFunc(own, func(o corev1.Volume) bool { return o.Name == v.Name })
	})
	spec.Volumes = append(slices.Clone(own), spec.Volumes...)
	p.Spec = spec
	for key, value := range like.Labels {
		if _, ok := p.Labels[key]; !ok {
			if p.Labels == nil {
				p.Labels = make(map[string]string)
			}
			p.Labels[key] = value
		}
	}
	for key, value := range like.Annotations {
		if _, ok := p.Annotations[key]; !ok {
			if p.Annotations == nil {
				p.Annotations = make(map[string]string)
			}
			p.Annotations[key] = value
		}
	}
}
