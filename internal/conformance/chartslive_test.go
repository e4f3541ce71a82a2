package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// The charts of TestChartsAsStock on running clusters of 200 nodes, with controllers, kubelets and a provisioner of volumes: once
// with the stock scheduler, once with `--default-scheduler berth`. What runs with the first runs with the second, on no node that
// the stock filters refuse, and no more unevenly. BERTH names the binary.
func TestChartsLive(t *testing.T) {
	binary := os.Getenv("BERTH")
	if binary == "" || testing.Short() {
		t.Skip("set BERTH to the binary: it runs two clusters of 200 nodes, for minutes")
	}
	binary, err := filepath.Abs(binary)
	if err != nil {
		t.Fatal(err)
	}
	theirs := runCharts(t, binary, "stock")
	ours := runCharts(t, binary, "berth")
	t.Logf("%d of %d pods run with the stock scheduler (%v), %d of %d with Berth (%v)", theirs.running(), len(theirs.pods), theirs.took, ours.running(), len(ours.pods), ours.took)

	for i, c := range ours.charts {
		was := theirs.charts[i]
		if had, has := len(theirs.on(was).on), len(ours.on(c).on); has < had {
			t.Errorf("%v: %d pods run with Berth, %d with the stock scheduler: %s", c, has, had, ours.waiting(c))
		}
		if c.perNode() {
			continue
		}
		for _, key := range []string{zone, host} {
			limit, ok := c.asks(key)
			before, now := theirs.on(was).skewOf(was, key, theirs.nodes), ours.on(c).skewOf(c, key, ours.nodes)
			if ok && now > max(before, limit) {
				t.Errorf("%v: skew %d over %s, with the stock scheduler %d", c, now, key, before)
			}
		}
	}
	ours.judge(t)
}

// cluster200 is what became of the charts on a running cluster.
type cluster200 struct {
	env    []string
	binary string
	took   time.Duration
	nodes  []*corev1.Node
	pods   []*corev1.Pod // of the charts, and all others
	charts []installed   // with the pods that the controllers made
	others []runtime.Object
}

// patience is how long the clusters may stand still before what they have reached counts.
const patience = 90 * time.Second

func runCharts(t *testing.T, binary, scheduler string) *cluster200 {
	dir := t.TempDir()
	c := &cluster200{binary: binary, env: append(os.Environ(), "BERTH_HOME="+filepath.Join(dir, "clusters"), "HOME="+dir)}
	fleet := filepath.Join(dir, "fleet.yaml")
	if err := os.WriteFile(fleet, []byte(pools()), 0o600); err != nil {
		t.Fatal(err)
	}
	c.do(t, nil, "up", "--detach", "--ephemeral", "--fleet", fleet, "--default-scheduler", scheduler, "--speed", "20")
	defer c.do(t, nil, "down")
	c.await(t, 200, func() int {
		c.nodes = items[corev1.Node](t, c, "nodes")
		return len(slices.DeleteFunc(slices.Clone(c.nodes), func(n *corev1.Node) bool {
			gpus := n.Status.Allocatable["nvidia.com/gpu"]
			return !slices.ContainsFunc(n.Status.Conditions, func(at corev1.NodeCondition) bool {
				return at.Type == corev1.NodeReady && at.Status == corev1.ConditionTrue
			}) ||
				strings.HasPrefix(n.Name, "gpu-") && gpus.Value() != 8
		}))
	})
	began := time.Now()
	list := &corev1.List{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}}
	for _, o := range c.manifests() {
		list.Items = append(list.Items, runtime.RawExtension{Object: o})
	}
	data, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	c.do(t, data, "kubectl", "create", "-f", "-")
	want := 0
	for _, s := range charts {
		if s.kind == "DaemonSet" {
			want += len(c.nodes)
		}
		want += s.replicas
	}
	c.await(t, want, func() int {
		c.pods = items[corev1.Pod](t, c, "pods")
		return c.running()
	})
	c.took = time.Since(began).Round(time.Second)
	c.group()
	for _, list := range [][]runtime.Object{
		objects(items[corev1.PersistentVolume](t, c, "persistentvolumes")), objects(items[corev1.PersistentVolumeClaim](t, c, "persistentvolumeclaims")),
		objects(items[storagev1.StorageClass](t, c, "storageclasses")), objects(items[storagev1.CSINode](t, c, "csinodes")),
		objects(items[corev1.Service](t, c, "services")), objects(items[appsv1.ReplicaSet](t, c, "replicasets")), objects(items[appsv1.StatefulSet](t, c, "statefulsets")),
		objects(items[corev1.Namespace](t, c, "namespaces")),
	} {
		c.others = append(c.others, list...)
	}
	return c
}

// pools is mixedFleet as a fleet file.
func pools() string {
	var b strings.Builder
	for i, count := range []int{47, 47, 46} {
		fmt.Fprintf(&b, "apiVersion: berth.dev/v1alpha1\nkind: Pool\nmetadata: {name: cpu-%d}\nspec:\n  nodes: %d\n  cpu: 16\n  memory: 64Gi\n  topology: {region: region, zone: zone-%d}\n---\n", i, count, i)
		fmt.Fprintf(&b, "apiVersion: berth.dev/v1alpha1\nkind: Pool\nmetadata: {name: gpu-%d}\nspec:\n  nodes: 20\n  gpus: [{model: h100, count: 8}]\n  taints: [{key: nvidia.com/gpu, effect: NoSchedule}]\n  topology: {region: region, zone: zone-%d}\n---\n", i, i)
	}
	return b.String()
}

// manifests are the charts' controllers and services, and what their volumes need.
func (c *cluster200) manifests() []runtime.Object {
	out := []runtime.Object{&storagev1.StorageClass{TypeMeta: metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "StorageClass"}, ObjectMeta: metav1.ObjectMeta{Name: "disks"}, Provisioner: "storage.berth.dev", VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer)}}
	for _, n := range c.nodes {
		out = append(out, &storagev1.CSINode{TypeMeta: metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "CSINode"}, ObjectMeta: metav1.ObjectMeta{Name: n.Name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "storage.berth.dev", NodeID: n.Name, Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(6))}}}}})
	}
	made := make(map[string]bool)
	for _, s := range charts {
		if !made[s.chart] {
			made[s.chart] = true
			out = append(out, &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: s.chart}})
		}
		out = append(out, s.controller()...)
	}
	return out
}

// controller is who makes the pods of the shape, and their service.
func (s shape) controller() []runtime.Object {
	one := s
	one.replicas, one.disks, one.kind = 1, 0, "Deployment"
	i := one.install(nil)
	p := i.pods[0]
	p.Spec.SchedulerName, p.Spec.Priority = "", nil
	for _, list := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for j := range list {
			list[j].Image = "registry.example/pause:1"
			list[j].Resources.Limits = corev1.ResourceList{}
			for name, q := range list[j].Resources.Requests {
				if strings.Contains(string(name), "/") {
					list[j].Resources.Limits[name] = q
				}
			}
		}
	}
	meta := metav1.ObjectMeta{Namespace: s.chart, Name: s.chart + "-" + s.part}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: p.Labels}, Spec: p.Spec}
	peers := &metav1.LabelSelector{MatchLabels: p.Labels}
	out := []runtime.Object{&corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: meta, Spec: corev1.ServiceSpec{Selector: p.Labels, Ports: []corev1.ServicePort{{Port: 80}}}}}
	made := metav1.TypeMeta{APIVersion: "apps/v1", Kind: s.kind}
	switch s.kind {
	case "Deployment":
		return append(out, &appsv1.Deployment{TypeMeta: made, ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: new(int32(s.replicas)), Selector: peers, Template: template}})
	case "DaemonSet":
		template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		return append(out, &appsv1.DaemonSet{TypeMeta: made, ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: peers, Template: template}})
	}
	set := &appsv1.StatefulSet{TypeMeta: made, ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(s.replicas)), ServiceName: meta.Name, Selector: peers, PodManagementPolicy: appsv1.ParallelPodManagement, Template: template}}
	for d := range s.disks {
		set.Spec.VolumeClaimTemplates = append(set.Spec.VolumeClaimTemplates, corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("data-", d)}, Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new("disks"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("50Gi")}},
		}})
	}
	return append(out, set)
}

// group finds the pods of each chart.
func (c *cluster200) group() {
	for _, s := range charts {
		i := installed{shape: s}
		for _, p := range c.pods {
			if p.Namespace == s.chart && p.Labels["app.kubernetes.io/component"] == s.part {
				i.pods = append(i.pods, p)
			}
		}
		c.charts = append(c.charts, i)
	}
}

// on is where the chart's pods run.
func (c *cluster200) on(of installed) *deployment {
	out := &deployment{on: make(map[string]string)}
	for _, p := range of.pods {
		if p.Status.Phase == corev1.PodRunning {
			out.on[p.Namespace+"/"+p.Name] = p.Spec.NodeName
		}
	}
	return out
}

// running counts the pods of charts that run.
func (c *cluster200) running() (n int) {
	for _, p := range c.pods {
		if p.Labels["app.kubernetes.io/instance"] == "prod" && p.Status.Phase == corev1.PodRunning {
			n++
		}
	}
	return n
}

// waiting says why the first pod of the chart that waits does.
func (c *cluster200) waiting(of installed) string {
	for _, p := range of.pods {
		if p.Status.Phase != corev1.PodRunning {
			return fmt.Sprintf("%s: %v", p.Name, p.Status.Conditions)
		}
	}
	return "none waits"
}

// judge asks the stock scheduler's filters about each pod of a chart where it is, with all others where they are.
func (c *cluster200) judge(t *testing.T) {
	k := newStock(t, c.others...)
	at := make(map[string]*corev1.Node)
	for _, n := range c.nodes {
		at[n.Name] = n
	}
	placed := slices.DeleteFunc(slices.Clone(c.pods), func(p *corev1.Pod) bool { return p.Spec.NodeName == "" })
	var last types.UID
	for i, p := range placed {
		owner := metav1.GetControllerOf(p)
		if owner == nil || p.Labels["app.kubernetes.io/instance"] != "prod" {
			continue
		}
		if owner.Kind == "DaemonSet" && owner.UID == last {
			continue // one of a DaemonSet's, which are on a node each, speaks for all
		}
		last = owner.UID
		k.show(fleet{nodes: c.nodes, bound: slices.Delete(slices.Clone(placed), i, i+1)})
		asks := p.DeepCopy()
		asks.Spec.NodeName = ""
		if by := k.judge(t, []*corev1.Node{at[p.Spec.NodeName]}, asks)[p.Spec.NodeName]; by != "" {
			t.Errorf("%s/%s is on %s, which %s of the stock scheduler refuses", p.Namespace, p.Name, p.Spec.NodeName, by)
		}
	}
}

// await waits until so many are there, or nothing has changed for long.
func (c *cluster200) await(t *testing.T, want int, count func() int) {
	for had, since := -1, time.Now(); time.Since(since) < patience; time.Sleep(2 * time.Second) {
		is := count()
		if is >= want {
			return
		}
		if is != had {
			had, since = is, time.Now()
		}
	}
	t.Logf("%d of %d", count(), want)
}

func (c *cluster200) do(t *testing.T, in []byte, args ...string) []byte {
	cmd := exec.Command(c.binary, args...)
	var out, complaints bytes.Buffer
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.env, bytes.NewReader(in), &out, &complaints
	if err := cmd.Run(); err != nil {
		t.Fatalf("berth %s: %v\n%s", strings.Join(args, " "), err, complaints.String())
	}
	return out.Bytes()
}

// items are all objects of the kind.
func items[T any](t *testing.T, c *cluster200, kind string) (out []*T) {
	var list struct{ Items []*T }
	if err := json.Unmarshal(c.do(t, nil, "kubectl", "get", kind, "-A", "-o", "json"), &list); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func objects[T any, P interface {
	*T
	runtime.Object
}](list []*T) (out []runtime.Object) {
	for _, o := range list {
		out = append(out, P(o))
	}
	return out
}
