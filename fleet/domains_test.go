package fleet

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/device"
	"github.com/berth-dev/berth/fleet/dra"
)

// rackPool is a pool of nodes with GPUs that are offered through DRA, two to an NVLink domain.
func rackPool(name string, nodes int32) *v1alpha1.Pool {
	p := draPool(name, nodes)
	p.Spec.Topology.Clique, p.Spec.Topology.NodesPerClique = "nvl", new(int32(2))
	return p
}

// domain makes a ComputeDomain, as a user does.
func (b *bed) domain(name string, nodes int64) {
	b.t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomain",
		"metadata": map[string]any{"namespace": "team", "name": name, "uid": "uid-" + name},
		"spec":     map[string]any{"numNodes": nodes, "channel": map[string]any{"resourceClaimTemplate": map[string]any{"name": name + "-channel"}}},
	}}
	if _, err := b.kinds.Resource(domainResource).Namespace("team").Create(b.t.Context(), u, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
	b.settle()
}

// shows is all that there is of compute domains, in words.
func (b *bed) shows() (out []string) {
	b.t.Helper()
	list, err := b.kinds.Resource(domainResource).List(b.t.Context(), metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	for i := range list.Items {
		_, cd, err := b.domains.get(string(list.Items[i].GetUID()))
		if err != nil || cd == nil {
			b.t.Fatal(cd, err)
		}
		text := fmt.Sprintf("%s %s %v", cd.Name, cd.Status.Status, list.Items[i].GetFinalizers())
		for _, n := range cd.Status.Nodes {
			text += fmt.Sprintf(" %s/%s/%d/%s/%s", n.Name, n.CliqueID, n.Index, n.IPAddress, n.Status)
		}
		out = append(out, text)
	}
	templates, _ := b.client.ResourceV1().ResourceClaimTemplates("").List(b.t.Context(), metav1.ListOptions{})
	for _, o := range templates.Items {
		out = append(out, "template "+o.Namespace+"/"+o.Name)
	}
	sets, _ := b.client.AppsV1().DaemonSets("").List(b.t.Context(), metav1.ListOptions{})
	for _, o := range sets.Items {
		out = append(out, "set "+o.Namespace+"/"+o.Name)
	}
	nodes, _ := b.client.CoreV1().Nodes().List(b.t.Context(), metav1.ListOptions{})
	for _, n := range nodes.Items {
		if l := n.Labels[dra.DomainLabel]; l != "" {
			out = append(out, n.Name+" in "+l)
		}
	}
	slices.Sort(out)
	return out
}

func (b *bed) wantDomains(when string, want ...string) {
	b.t.Helper()
	slices.Sort(want)
	if diff := cmp.Diff(want, b.shows()); diff != "" {
		b.t.Errorf("%s: %s", when, diff)
	}
}

// use has a pod's claim of the domain's channel prepared, and says what comes of it.
func (b *bed) use(node, pod, domain string) string {
	b.t.Helper()
	claim := types.NamespacedName{Namespace: "team", Name: "claim-" + pod}
	err := b.domains.Use(b.t.Context(), node, types.UID(pod), claim, types.UID("claim-"+pod), dra.DomainUse{Domain: domain})
	b.settle()
	if err == nil {
		return ""
	}
	if _, permanent := errors.AsType[dra.PermanentError](err); permanent {
		return "never: " + err.Error()
	}
	return err.Error()
}

// daemon has the DaemonSet's pod run on the node, or be gone where ready is nil.
func (b *bed) daemon(node, domain string, ready ...bool) {
	b.stack.mu.Lock()
	if delete(b.stack.daemons, node); len(ready) > 0 {
		b.stack.daemons[node] = device.StackPod{
			Name: "gpu-operator/daemon-" + node, Role: device.Domain, Ready: ready[0], IP: "10.1.0.1", Labels: map[string]string{dra.DomainLabel: domain},
		}
	}
	b.stack.mu.Unlock()
	b.nodeQueue.Add(node)
	b.settle()
}

// A domain's nodes are those of its pods: each gets the label and then a daemon, and the pod starts once that is ready. Nodes leave with
// their pods, and nothing is left of a domain that is deleted.
func TestComputeDomain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, false, []*v1alpha1.Pool{rackPool("p", 3)})
		b.domain("train", 2)
		const set, template, daemons = "set gpu-operator/computedomain-daemon-uid-train", "template team/train-channel", "template gpu-operator/computedomain-daemon-uid-train"
		const fin = "[resource.nvidia.com/computeDomain]"
		const notYet = "error applying config: error asserting ComputeDomain Ready: current node not ready in ComputeDomain"
		b.wantDomains("made", "train NotReady "+fin, set, template, daemons)
		if got := b.use("p-0", "a", "uid-train"); got != notYet {
			t.Errorf("without a daemon: %s", got)
		}
		b.wantDomains("a pod comes", "train NotReady "+fin, set, template, daemons, "p-0 in uid-train")
		b.daemon("p-0", "uid-train", false)
		if got := b.use("p-0", "a", "uid-train"); got != notYet {
			t.Errorf("before the daemon is ready: %s", got)
		}
		poked := b.stack.changed["p-0"]
		b.daemon("p-0", "uid-train", true)
		b.wantDomains("its daemon is ready", "train NotReady "+fin+" p-0/nvl.0/0/10.1.0.1/Ready", set, template, daemons, "p-0 in uid-train")
		if b.stack.changed["p-0"] == poked {
			t.Error("nobody told the pods of the node")
		}
		if got := b.use("p-0", "a", "uid-train"); got != "" {
			t.Errorf("with a daemon: %s", got)
		}
		if got := b.use("p-0", "other", "uid-train"); got != "error applying config: allocation failed: channel 0 already allocated by claim claim-a (according to checkpoint)" {
			t.Errorf("a second claim: %s", got)
		}
		b.use("p-2", "b", "uid-train")
		b.daemon("p-2", "uid-train", true)
		b.wantDomains("as many as it wants", "train Ready "+fin+" p-0/nvl.0/0/10.1.0.1/Ready p-2/nvl.1/0/10.1.0.1/Ready", set, template, daemons, "p-0 in uid-train", "p-2 in uid-train")

		b.domains.Leave("p-0", "nobody")
		b.domains.Leave("p-0", "a")
		b.settle()
		b.daemon("p-0", "uid-train")
		b.wantDomains("a pod goes", "train NotReady "+fin+" p-2/nvl.1/0/10.1.0.1/Ready", set, template, daemons, "p-2 in uid-train")

		b.edit("p-1", func(n *corev1.Node) { n.Labels[dra.DomainLabel] = "uid-train" }) // of an earlier life of this process
		b.domain("next", 0)
		if got := b.use("p-1", "c", "uid-next"); got != notYet || b.get("p-1").Labels[dra.DomainLabel] != "uid-next" {
			t.Errorf("a label that nobody vouches for: %s", got)
		}
		u, _ := b.kinds.Resource(domainResource).Namespace("team").Get(t.Context(), "train", metav1.GetOptions{})
		now := metav1.Now()
		u.SetDeletionTimestamp(&now) // the tracker knows no finalizers
		if _, err := b.kinds.Resource(domainResource).Namespace("team").Update(t.Context(), u, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		b.settle()
		b.wantDomains("deleted", "train NotReady [] p-2/nvl.1/0/10.1.0.1/Ready", "next Ready "+fin,
			"set gpu-operator/computedomain-daemon-uid-next", "template team/next-channel", "template gpu-operator/computedomain-daemon-uid-next", "p-1 in uid-next")
		if err := b.kinds.Resource(domainResource).Namespace("team").Delete(t.Context(), "train", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		b.settle()
		if got := b.use("p-2", "d", "uid-train"); got != "never: error applying config: error asserting ComputeDomain's namespace: ComputeDomain not found: uid-train" {
			t.Errorf("of a domain that is gone: %s", got)
		}
		claim := types.NamespacedName{Namespace: "other", Name: "c"}
		err := b.domains.Use(t.Context(), "p-0", "e", claim, "e", dra.DomainUse{Domain: "uid-next"})
		if err == nil || !strings.HasSuffix(err.Error(), "the ResourceClaim's namespace is different than the ComputeDomain's namespace") {
			t.Errorf("of another namespace: %v", err)
		}
		if err := b.domains.Use(t.Context(), "p-0", "e", claim, "e", dra.DomainUse{Domain: "uid-next", Daemon: true}); err != nil {
			t.Errorf("a daemon: %v", err)
		}
		if l := b.get("p-0").Labels[dra.DomainLabel]; l != "" {
			t.Errorf("p-0 is in %s", l)
		}
	})
}

// What somebody deletes of a domain is made again, and what is somebody else's is left alone.
func TestComputeDomainIsRepaired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		others := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "b-channel"}}
		b := newBed(t, false, []*v1alpha1.Pool{rackPool("p", 1)}, others)
		b.domain("a", 1)
		if err := b.client.ResourceV1().ResourceClaimTemplates("team").Delete(t.Context(), "a-channel", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		b.domains.queue.Add("uid-a")
		b.settle()
		b.domain("b", 1)
		time.Sleep(time.Minute)
		b.settle()
		got := b.shows()
		for _, want := range []string{"template team/a-channel", "template team/b-channel"} {
			if !slices.Contains(got, want) {
				t.Errorf("%s is missing in %q", want, got)
			}
		}
		u, _ := b.kinds.Resource(domainResource).Namespace("team").Get(t.Context(), "b", metav1.GetOptions{})
		now := metav1.Now()
		u.SetDeletionTimestamp(&now)
		if _, err := b.kinds.Resource(domainResource).Namespace("team").Update(t.Context(), u, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		b.settle()
		if _, err := b.client.ResourceV1().ResourceClaimTemplates("team").Get(t.Context(), "b-channel", metav1.GetOptions{}); err != nil {
			t.Errorf("somebody else's template: %v", err)
		}
	})
}

// A node in an NVLink domain offers a channel and a daemon while its driver runs, in a pool of their own.
func TestChannelsAreOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, false, []*v1alpha1.Pool{rackPool("p", 1), draPool("q", 1)})
		b.setStack("p-0", draPods())
		b.setStack("q-0", draPods())
		channels := func(node string) []resourcev1.Device {
			s, err := b.client.ResourceV1().ResourceSlices().Get(t.Context(), node+"-compute-domain.nvidia.com", metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return s.Spec.Devices
		}
		if p, q := channels("p-0"), channels("q-0"); len(p) != 2 || q != nil {
			t.Errorf("p-0 offers %v, q-0 %v", p, q)
		}
		b.wantSlice("beside its GPUs", "p-0", 8)
		if got := b.statuses["p"].GPUs; got != 8 {
			t.Errorf("%d GPUs in the pool's status", got)
		}
		b.setStack("p-0", nil)
		time.Sleep(device.WipingDelay)
		b.settle()
		if p := channels("p-0"); p != nil {
			t.Errorf("without a driver: %v", p)
		}
	})
}

// Where a device plugin counts the GPUs, the half of NVIDIA's driver that is for compute domains runs beside it, and offers channels alone.
func TestChannelsBesideADevicePlugin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counted := rackPool("p", 1)
		counted.Spec.Advertise = v1alpha1.AdvertiseDevicePlugin
		b := newBed(t, false, []*v1alpha1.Pool{counted, gpuPool("q", 1)})
		driver := device.StackPod{Name: "gpu-operator/channels", Role: device.Channels, Ready: true, HostPaths: []string{"/var/lib/kubelet/plugins", "/var/lib/kubelet/plugins_registry"}}
		slices := func() (names []string) {
			list, err := b.client.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range list.Items {
				names = append(names, fmt.Sprint(s.Name, " ", len(s.Spec.Devices)))
			}
			return names
		}
		b.setStack("p-0", stackPods())
		if got := slices(); got != nil {
			t.Errorf("without the driver: %v", got)
		}
		for _, node := range []string{"p-0", "q-0"} {
			b.setStack(node, append(stackPods(), driver))
			b.wantOffer("the device plugin counts the GPUs", node, device.Resource, "8/8")
		}
		if diff := cmp.Diff([]string{"p-0-compute-domain.nvidia.com 2"}, slices()); diff != "" {
			t.Error(diff)
		}
		if got := b.statuses["p"].GPUs; got != 8 {
			t.Errorf("%d GPUs in the pool's status", got)
		}
		b.setStack("p-0", stackPods())
		time.Sleep(device.WipingDelay)
		b.settle()
		if got := slices(); got != nil {
			t.Errorf("the driver is gone: %v", got)
		}
		b.wantOffer("the device plugin stays", "p-0", device.Resource, "8/8")
	})
}
