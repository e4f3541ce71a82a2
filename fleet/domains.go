package fleet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/device"
	"github.com/berth-dev/berth/fleet/dra"
)

// domainNamespace is where the daemons of compute domains run: that of the GPU stack.
const domainNamespace = "gpu-operator"

var domainResource = schema.GroupVersionResource{Group: "resource.nvidia.com", Version: "v1beta1", Resource: "computedomains"}

// domainUID indexes ComputeDomains by UID, by which nodes, daemons and claims name them.
const domainUID = "uid"

// domains play NVIDIA's controller of ComputeDomains, and the half of its driver on each node that prepares their claims.
//
//	ComputeDomain is made --> templates and a DaemonSet, which selects nodes by a label that none has
//	a pod's claim of a channel is prepared --> Use: the pod's node gets the label, and the pod waits
//	the DaemonSet's pod is ready there --> the node is ready in the domain's status, and the pod starts
//	the pod is gone --> Leave: the node loses the label, and with it the daemon
//	ComputeDomain is deleted --> templates, DaemonSet and labels go, then its finalizer
//
// A domain is worked on by one worker at a time; what it looks like follows from the API and from the pods that run.
type domains struct {
	client kubernetes.Interface
	kinds  dynamic.NamespaceableResourceInterface
	store  cache.Indexer
	node   func(name string) *corev1.Node
	nodes  func() []*corev1.Node
	clique func(node string) string
	pods   podSide
	look   func(node string) // has a node be looked at
	queue  workqueue.TypedRateLimitingInterface[string]

	mu     sync.Mutex
	joined map[string]*membership // by node: who has its channel
	left   map[string]string      // by node: the domain whose label is to go
}

// membership is why a node is in a domain.
type membership struct {
	domain string
	claim  types.UID
	pods   map[types.UID]bool
}

// watchDomains is the informer of ComputeDomains.
func watchDomains(client dynamic.Interface) cache.SharedIndexInformer {
	byUID := cache.Indexers{domainUID: func(obj any) ([]string, error) { return []string{string(obj.(metav1.Object).GetUID())}, nil }}
	return dynamicinformer.NewFilteredDynamicInformer(client, domainResource, metav1.NamespaceAll, 0, byUID, nil).Informer()
}

// newDomains plays the domains in the store with what the controller has.
func newDomains(c *controller, client dynamic.Interface, store cache.Indexer, nodes func() []*corev1.Node) *domains {
	return &domains{
		client: c.client, kinds: client.Resource(domainResource), store: store, node: c.node, nodes: nodes, pods: c.pods, look: c.nodeQueue.Add,
		clique: func(node string) string {
			if m := c.machines.get(node); m != nil {
				return m.devices.Clique()
			}
			return ""
		},
		queue: newQueue(), joined: make(map[string]*membership), left: make(map[string]string),
	}
}

// get is the domain as last seen, nil for none.
func (d *domains) get(uid string) (*unstructured.Unstructured, *dra.ComputeDomain, error) {
	all, err := d.store.ByIndex(domainUID, uid)
	if err != nil || len(all) == 0 {
		return nil, nil, err
	}
	u := all[0].(*unstructured.Unstructured)
	cd := &dra.ComputeDomain{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, cd); err != nil {
		return nil, nil, fmt.Errorf("read compute domain %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	return u, cd, nil
}

// events is what the informer of ComputeDomains calls. A node that is ready in one now, or is not any more, has pods that wait for that.
func (d *domains) events() cache.ResourceEventHandler {
	statuses := func(obj any) map[string]string {
		out := make(map[string]string)
		if u, ok := obj.(*unstructured.Unstructured); ok {
			list, _, _ := unstructured.NestedSlice(u.Object, "status", "nodes")
			for _, n := range list {
				node, _ := n.(map[string]any)
				name, _ := node["name"].(string)
				out[name], _ = node["status"].(string)
			}
		}
		return out
	}
	seen := func(old, obj any) {
		d.queue.Add(string(obj.(metav1.Object).GetUID()))
		was := statuses(old)
		for node, is := range statuses(obj) {
			if was[node] != is {
				d.pods.NodeChanged(node)
			}
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { seen(nil, obj) },
		UpdateFunc: seen,
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if o, ok := obj.(metav1.Object); ok {
				d.queue.Add(string(o.GetUID()))
			}
		},
	}
}

// nodeSeen has the domains looked at that a node was or is in. Either may be nil.
func (d *domains) nodeSeen(old, node *corev1.Node) {
	if d == nil {
		return
	}
	for _, n := range []*corev1.Node{old, node} {
		if n != nil && n.Labels[dra.DomainLabel] != "" {
			d.queue.Add(n.Labels[dra.DomainLabel])
		}
	}
}

// sync takes the domain one step on.
func (d *domains) sync(ctx context.Context, uid string) error {
	u, cd, err := d.get(uid)
	switch {
	case err != nil:
		return err
	case cd == nil:
		return d.unlabel(ctx, uid)
	case cd.DeletionTimestamp != nil:
		return d.tearDown(ctx, u, cd)
	case !slices.Contains(u.GetFinalizers(), dra.DomainLabel):
		next := u.DeepCopy()
		next.SetFinalizers(append(next.GetFinalizers(), dra.DomainLabel))
		_, err := d.kinds.Namespace(cd.Namespace).Update(ctx, next, metav1.UpdateOptions{})
		return wrap(err, "finalizer of compute domain %s/%s", cd.Namespace, cd.Name) // its event leads here again
	}
	for _, p := range d.parts(cd) {
		if err := p.ensure(ctx); err != nil {
			return fmt.Errorf("compute domain %s/%s: %w", cd.Namespace, cd.Name, err)
		}
	}
	return d.writeStatus(ctx, u, cd)
}

func (d *domains) writeStatus(ctx context.Context, u *unstructured.Unstructured, cd *dra.ComputeDomain) error {
	status := cd.With(d.daemons(string(cd.UID)))
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return err
	}
	was, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&cd.Status)
	if err != nil || fmt.Sprint(was) == fmt.Sprint(fields) {
		return err
	}
	next := u.DeepCopy()
	next.Object["status"] = fields
	_, err = d.kinds.Namespace(cd.Namespace).UpdateStatus(ctx, next, metav1.UpdateOptions{})
	return wrap(err, "status of compute domain %s/%s", cd.Namespace, cd.Name)
}

// daemons are those of the domain, on the nodes with its label.
func (d *domains) daemons(uid string) (out []dra.DomainNode) {
	for _, n := range d.nodes() {
		if n.Labels[dra.DomainLabel] != uid {
			continue
		}
		for _, p := range d.pods.StackPods(n.Name) {
			if p.Role != device.Domain || p.Labels[dra.DomainLabel] != uid || p.IP == "" {
				continue
			}
			status := dra.DomainNotReady
			if p.Ready {
				status = dra.DomainReady
			}
			out = append(out, dra.DomainNode{Name: n.Name, IPAddress: p.IP, CliqueID: d.clique(n.Name), Status: status})
			break // while one goes and the next comes there are two
		}
	}
	return out
}

// domainPart is an object that a domain consists of.
type domainPart struct {
	what, domain string
	get          func(ctx context.Context) (metav1.Object, error)
	create       func(ctx context.Context) error
	delete       func(ctx context.Context, o metav1.DeleteOptions) error
}

// ensure makes the object if it is not there. One of the same name that is somebody else's is an error, which is tried again.
func (p domainPart) ensure(ctx context.Context) error {
	have, err := p.get(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return wrap(p.create(ctx), "create %s", p.what)
	case err != nil:
		return wrap(err, "read %s", p.what)
	case have.GetLabels()[dra.DomainLabel] != p.domain:
		return fmt.Errorf("%s is there already and is not its own", p.what)
	}
	return nil
}

// remove deletes the object, and says whether it is gone.
func (p domainPart) remove(ctx context.Context) (gone bool, err error) {
	have, err := p.get(ctx)
	if apierrors.IsNotFound(err) || err == nil && have.GetLabels()[dra.DomainLabel] != p.domain {
		return true, nil
	}
	if err == nil && have.GetDeletionTimestamp() == nil {
		background := metav1.DeletePropagationBackground
		err = p.delete(ctx, metav1.DeleteOptions{PropagationPolicy: &background, Preconditions: metav1.NewUIDPreconditions(string(have.GetUID()))})
	}
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return false, wrap(err, "delete %s", p.what)
}

// parts are the objects of the domain, in the order in which NVIDIA's controller makes them.
func (d *domains) parts(cd *dra.ComputeDomain) []domainPart {
	uid := string(cd.UID)
	template := func(namespace, name string, create func(ctx context.Context) error) domainPart {
		client := d.client.ResourceV1().ResourceClaimTemplates(namespace)
		return domainPart{
			what: "resource claim template " + namespace + "/" + name, domain: uid, create: create,
			get:    func(ctx context.Context) (metav1.Object, error) { return client.Get(ctx, name, metav1.GetOptions{}) },
			delete: func(ctx context.Context, o metav1.DeleteOptions) error { return client.Delete(ctx, name, o) },
		}
	}
	daemons, workload := cd.DaemonTemplate(domainNamespace), cd.WorkloadTemplate()
	set := cd.DaemonSet(domainNamespace, map[string]string{v1alpha1.KeyUser: "berth"})
	sets := d.client.AppsV1().DaemonSets(domainNamespace)
	return []domainPart{
		template(daemons.Namespace, daemons.Name, func(ctx context.Context) error {
			_, err := d.client.ResourceV1().ResourceClaimTemplates(daemons.Namespace).Create(ctx, daemons, metav1.CreateOptions{})
			return err
		}),
		{
			what: "daemon set " + set.Name, domain: uid,
			get: func(ctx context.Context) (metav1.Object, error) { return sets.Get(ctx, set.Name, metav1.GetOptions{}) },
			create: func(ctx context.Context) error {
				_, err := sets.Create(ctx, set, metav1.CreateOptions{})
				return err
			},
			delete: func(ctx context.Context, o metav1.DeleteOptions) error { return sets.Delete(ctx, set.Name, o) },
		},
		template(workload.Namespace, workload.Name, func(ctx context.Context) error {
			_, err := d.client.ResourceV1().ResourceClaimTemplates(workload.Namespace).Create(ctx, workload, metav1.CreateOptions{})
			return err
		}),
	}
}

// tearDown removes what the domain consists of, and then lets go of it.
func (d *domains) tearDown(ctx context.Context, u *unstructured.Unstructured, cd *dra.ComputeDomain) error {
	all := true
	for _, p := range d.parts(cd) {
		gone, err := p.remove(ctx)
		if err != nil {
			return fmt.Errorf("compute domain %s/%s: %w", cd.Namespace, cd.Name, err)
		}
		all = all && gone
	}
	if err := d.unlabel(ctx, string(cd.UID)); err != nil {
		return err
	}
	if !all {
		d.queue.AddAfter(string(cd.UID), 100*time.Millisecond)
		return nil
	}
	if !slices.Contains(u.GetFinalizers(), dra.DomainLabel) {
		return nil
	}
	next := u.DeepCopy()
	next.SetFinalizers(slices.DeleteFunc(next.GetFinalizers(), func(f string) bool { return f == dra.DomainLabel }))
	_, err := d.kinds.Namespace(cd.Namespace).Update(ctx, next, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return wrap(err, "finalizer of compute domain %s/%s", cd.Namespace, cd.Name)
}

// unlabel takes the domain's label off all nodes, which are in it no more, whatever pods they have.
func (d *domains) unlabel(ctx context.Context, uid string) error {
	d.mu.Lock()
	maps.DeleteFunc(d.joined, func(_ string, m *membership) bool { return m.domain == uid })
	d.mu.Unlock()
	for _, n := range d.nodes() {
		if n.Labels[dra.DomainLabel] != uid {
			continue
		}
		if err := d.label(ctx, n.Name, nil); err != nil {
			return err
		}
	}
	return nil
}

// label gives the node the label of a domain, or none.
func (d *domains) label(ctx context.Context, node string, domain *string) error {
	value := "null"
	if domain != nil {
		value = fmt.Sprintf("%q", *domain)
	}
	body := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, dra.DomainLabel, value)
	_, err := d.client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(body), metav1.PatchOptions{})
	if domain == nil && apierrors.IsNotFound(err) {
		return nil
	}
	return wrap(err, "label node %s", node)
}

// Use prepares a claim on the node, in the words and the order of NVIDIA's driver. A node may be in one domain at a time: it has one channel. A label
// of another domain that nobody on the node vouches for is of an earlier life of this process, and is written over.
func (d *domains) Use(ctx context.Context, node string, pod types.UID, claim types.NamespacedName, uid types.UID, use dra.DomainUse) error {
	_, cd, err := d.get(use.Domain)
	if err == nil && cd == nil {
		err = fmt.Errorf("ComputeDomain not found: %s", use.Domain)
	}
	if use.Daemon {
		return wrap(err, "error applying config: error getting compute domain %s", use.Domain)
	}
	if err == nil && cd.Namespace != claim.Namespace {
		err = fmt.Errorf("the ResourceClaim's namespace is different than the ComputeDomain's namespace")
	}
	if err != nil {
		return dra.PermanentError{Err: fmt.Errorf("error applying config: error asserting ComputeDomain's namespace: %w", err)}
	}
	if other := d.join(node, pod, uid, use.Domain); other != "" {
		return fmt.Errorf("error applying config: allocation failed: channel 0 already allocated by claim %s (according to checkpoint)", other)
	}
	if n := d.node(node); n == nil || n.Labels[dra.DomainLabel] != use.Domain {
		if err := d.label(ctx, node, &use.Domain); err != nil {
			return fmt.Errorf("error applying config: error adding Node label for ComputeDomain: %w", err)
		}
	}
	if cd.NodeStatus(node) != dra.DomainReady {
		return fmt.Errorf("error applying config: error asserting ComputeDomain Ready: current node not ready in ComputeDomain")
	}
	return nil
}

// join notes that the pod has the node's channel, unless it is another claim's, which it returns.
func (d *domains) join(node string, pod, claim types.UID, domain string) (other types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.joined[node]
	if at == nil {
		at = &membership{domain: domain, claim: claim, pods: make(map[types.UID]bool)}
		d.joined[node] = at
	}
	if at.claim != claim {
		return at.claim
	}
	at.pods[pod] = true
	delete(d.left, node)
	return ""
}

// Leave notes that the pod is gone. With the last of a claim its node leaves the domain.
func (d *domains) Leave(node string, pod types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.joined[node]
	if at == nil || !at.pods[pod] {
		return
	}
	if delete(at.pods, pod); len(at.pods) == 0 {
		delete(d.joined, node)
		d.left[node] = at.domain
		d.look(node)
	}
}

// settle has the node's label be that of the domain that it is in, or has left, and the domain looked at: its daemon may have come or gone.
func (d *domains) settle(ctx context.Context, node *corev1.Node) error {
	if d == nil {
		return nil
	}
	is := node.Labels[dra.DomainLabel]
	if is != "" {
		d.queue.Add(is)
	}
	d.mu.Lock()
	left, at := d.left[node.Name], d.joined[node.Name]
	delete(d.left, node.Name)
	d.mu.Unlock()
	switch {
	case at != nil && is != at.domain: // it was joined while the label was taken off
		return d.label(ctx, node.Name, &at.domain)
	case at == nil && left != "" && left == is:
		if err := d.label(ctx, node.Name, nil); err != nil {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.left[node.Name] = left
			return err
		}
	}
	return nil
}
