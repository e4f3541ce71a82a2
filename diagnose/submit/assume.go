package submit

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/kube/dialect"
)

// assume adds to the facts of a fleet, where there is no cluster to look into, what pods refer to and was not given: it is
// taken to exist and to be in no pod's way. It returns the objects, and a sentence about each.
func (c *checker) assume(f *facts.Facts) (objects []facts.Object, said []string) {
	seen := make(map[string]bool)
	defer func() {
		more, text := c.assumeLocalQueues(f)
		objects, said = append(objects, more...), append(said, text...)
	}()
	add := func(o facts.Object, text string) {
		if !seen[text] {
			seen[text] = true
			o.SetUID(types.UID("assumed-" + text))
			objects, said = append(objects, o), append(said, text)
		}
	}
	for _, s := range c.subs {
		for i := range s.Parts {
			for _, p := range s.Parts[i].Pods {
				c.assumeFor(f, s, p, add)
			}
			for _, p := range s.Parts[i].Pods[:min(1, len(s.Parts[i].Pods))] { // they are alike
				c.assumeQueuesOf(f, add, p, s.Parts[i].Maker, s.Object)
			}
		}
		for _, o := range s.Also {
			c.assumeQueuesOf(f, add, o)
		}
		for _, claim := range s.Claims() {
			assumeClass(f, claim, add)
		}
	}
	for _, claim := range f.PersistentVolumeClaims {
		assumeClass(f, claim, add)
	}
	for _, kind := range slices.Sorted(maps.Keys(f.Foreign)) {
		for _, o := range f.Foreign[kind] {
			c.assumeQueuesOf(f, add, o)
		}
	}
	return objects, said
}

// assumeClass adds the storage class that a claim asks for: volumes are made where its pod goes.
func assumeClass(f *facts.Facts, claim *corev1.PersistentVolumeClaim, add func(facts.Object, string)) {
	name := ptr.Deref(claim.Spec.StorageClassName, claim.Annotations[corev1.BetaStorageClassAnnotation])
	if name == "" || claim.Spec.VolumeName != "" || place.Named(f.StorageClasses, "", name) != nil {
		return
	}
	class := &storagev1.StorageClass{Provisioner: "assumed.berth.dev", VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer)}
	class.Name = name
	add(class, fmt.Sprintf("storage class %s exists, and makes volumes on every node", name))
}

// queued are the projects whose pods, PodGroups and queues name a queue of which there is one in the cluster: by which keys, and what a queue
// says that stands in nobody's way. Kueue's are in assumeLocalQueues.
var queued = []struct {
	dialect, group, version, parent string
	keys                            []string
	spec                            map[string]any
}{
	{"kai", "scheduling.run.ai", "v2", "parentQueue", []string{"kai.scheduler/queue", "runai/queue"},
		map[string]any{"resources": map[string]any{"gpu": boundless, "cpu": boundless, "memory": boundless}}},
	{"volcano", "scheduling.volcano.sh", "v1beta1", "parent", []string{"scheduling.volcano.sh/queue-name", "volcano.sh/queue-name"}, map[string]any{}},
}

var boundless = map[string]any{"quota": int64(-1), "limit": int64(-1)}

// assumeQueuesOf adds the queues that the objects name, by a key or, where they are the project's own, in a field.
func (c *checker) assumeQueuesOf(f *facts.Facts, add func(facts.Object, string), by ...facts.Object) {
	for _, q := range queued {
		if !c.spoken(q.dialect) {
			continue
		}
		name := func(name string) {
			if name == "" || f.ForeignNamed("Queue."+q.group, "", name) != nil {
				return
			}
			o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": q.group + "/" + q.version, "kind": "Queue", "spec": runtime.DeepCopyJSON(q.spec)}}
			o.SetName(name)
			add(o, fmt.Sprintf("queue %s of %s exists, and has quota for everything", name, q.group))
		}
		for _, o := range by {
			for _, key := range q.keys {
				name(o.GetLabels()[key])
				name(o.GetAnnotations()[key])
			}
			u, ok := o.(*unstructured.Unstructured)
			switch {
			case !ok || u.GroupVersionKind().Group != q.group:
			case u.GetKind() == "PodGroup":
				name(dialect.Text(u.Object, "spec", "queue"))
			case u.GetKind() == "Queue":
				name(dialect.Text(u.Object, "spec", q.parent))
			}
		}
	}
}

func (c *checker) assumeFor(f *facts.Facts, s *submission, p *corev1.Pod, add func(facts.Object, string)) {
	if name := p.Spec.PriorityClassName; name != "" && name != "system-node-critical" && name != "system-cluster-critical" && place.Named(f.PriorityClasses, "", name) == nil {
		class := &schedulingv1.PriorityClass{}
		class.Name = name
		add(class, fmt.Sprintf("priority class %s exists, with value 0", name))
	}
	if name := p.Spec.RuntimeClassName; name != nil && place.Named(f.RuntimeClasses, "", *name) == nil {
		class := &nodev1.RuntimeClass{Handler: *name}
		class.Name = *name
		add(class, fmt.Sprintf("runtime class %s exists", *name))
	}
	if name := p.Spec.ServiceAccountName; name != "" && name != "default" && place.Named(f.ServiceAccounts, p.Namespace, name) == nil {
		account := &corev1.ServiceAccount{}
		account.Namespace, account.Name = p.Namespace, name
		add(account, fmt.Sprintf("service account %s exists in namespace %s", name, p.Namespace))
	}
	made := s.Claims()
	for i := range p.Spec.Volumes {
		v := p.Spec.Volumes[i].PersistentVolumeClaim
		if v == nil || place.Named(f.PersistentVolumeClaims, p.Namespace, v.ClaimName) != nil ||
			slices.ContainsFunc(made, func(c *corev1.PersistentVolumeClaim) bool { return c.Name == v.ClaimName }) {
			continue
		}
		claim := &corev1.PersistentVolumeClaim{}
		claim.Namespace, claim.Name = p.Namespace, v.ClaimName
		claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		claim.Spec.StorageClassName = new("zonal")
		claim.Status.Phase = corev1.ClaimPending
		add(claim, fmt.Sprintf("claim %s exists in namespace %s, and every node can use it", v.ClaimName, p.Namespace))
	}
	c.assumeQueue(f, s, p, add)
}

func (c *checker) assumeQueue(f *facts.Facts, s *submission, p *corev1.Pod, add func(facts.Object, string)) {
	const kind = v1alpha1.QueueKind + ".berth.dev"
	for _, o := range []facts.Object{p, s.Object} {
		name := o.GetAnnotations()[v1alpha1.KeyQueue]
		if name == "" {
			name = o.GetLabels()[v1alpha1.KeyQueue]
		}
		if name == "" || f.ForeignNamed(kind, "", name) != nil {
			continue
		}
		q := &unstructured.Unstructured{Object: map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.QueueKind, "metadata": map[string]any{"name": name}, "spec": map[string]any{}}}
		add(q, fmt.Sprintf("queue %s exists, and namespace %s may use it without limits", name, p.Namespace))
	}
}

// assumeLocalQueues is for work that names LocalQueues of Kueue: those that are not there are taken to exist, and ClusterQueues that LocalQueues
// name and that are not there to have quota for everything; priority classes of Kueue have value 0.
func (c *checker) assumeLocalQueues(f *facts.Facts) (objects []facts.Object, said []string) {
	if !c.spoken("kueue") {
		return nil, nil
	}
	const group = ".kueue.x-k8s.io"
	made := make(map[string]bool)
	add := func(kind, namespace, name string, fields map[string]any, text string) {
		if made[kind+namespace+"/"+name] || f.ForeignNamed(kind+group, namespace, name) != nil {
			return
		}
		made[kind+namespace+"/"+name] = true
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind}}
		for key, value := range fields { //archtest:any-order each has its own key
			o.Object[key] = value
		}
		o.SetNamespace(namespace)
		o.SetName(name)
		o.SetUID(types.UID("assumed-" + kind + "-" + namespace + "-" + name))
		if objects = append(objects, o); text != "" {
			said = append(said, text)
		}
	}
	covers := c.requested()
	clusterQueue := func(name string) {
		var resources []any
		for _, r := range covers {
			quota := "1M"
			if r == string(corev1.ResourceMemory) || r == string(corev1.ResourceEphemeralStorage) {
				quota = "1P"
			}
			resources = append(resources, map[string]any{"name": r, "nominalQuota": quota})
		}
		names := make([]any, len(covers))
		for i := range covers {
			names[i] = covers[i]
		}
		add("ResourceFlavor", "", "assumed", map[string]any{"spec": map[string]any{}}, "")
		add("ClusterQueue", "", name, map[string]any{"spec": map[string]any{"namespaceSelector": map[string]any{}, "resourceGroups": []any{
			map[string]any{"coveredResources": names, "flavors": []any{map[string]any{"name": "assumed", "resources": resources}}},
		}}}, fmt.Sprintf("ClusterQueue %s exists, and has quota for everything", name))
	}
	for _, u := range f.Foreign["LocalQueue"+group] {
		clusterQueue(dialect.Text(u.Object, "spec", "clusterQueue"))
	}
	for _, s := range c.subs {
		for i := range s.Parts {
			for _, p := range s.Parts[i].Pods {
				for _, o := range []facts.Object{p, s.Parts[i].Maker, s.Object} {
					if name := o.GetLabels()["kueue.x-k8s.io/queue-name"]; name != "" && f.ForeignNamed("LocalQueue"+group, p.Namespace, name) == nil {
						add("LocalQueue", p.Namespace, name, map[string]any{"spec": map[string]any{"clusterQueue": name}}, fmt.Sprintf("LocalQueue %s exists in namespace %s", name, p.Namespace))
						clusterQueue(name)
					}
					if name := o.GetLabels()["kueue.x-k8s.io/priority-class"]; name != "" {
						add("WorkloadPriorityClass", "", name, map[string]any{"value": int64(0)}, fmt.Sprintf("WorkloadPriorityClass %s exists, with value 0", name))
					}
				}
			}
		}
	}
	return objects, said
}

// requested are the resources that the pods ask for, sorted, the common ones among them.
func (c *checker) requested() []string {
	names := map[string]bool{"cpu": true, "memory": true}
	for _, s := range c.subs {
		for i := range s.Parts {
			for _, p := range s.Parts[i].Pods[:min(1, len(s.Parts[i].Pods))] { // they are alike
				for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
					for _, of := range list {
						for _, amounts := range []corev1.ResourceList{of.Resources.Requests, of.Resources.Limits} {
							for name := range amounts { //archtest:any-order it fills a set
								names[string(name)] = true
							}
						}
					}
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}
