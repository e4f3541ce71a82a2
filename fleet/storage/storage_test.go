package storage

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-helpers/storage/volume"

	"github.com/berth-dev/berth/fleet/clock"
)

// world is a cluster of three nodes, two of them in zones.
type world struct {
	t      *testing.T
	client *fake.Clientset
}

func newWorld(t *testing.T, objects ...runtime.Object) *world {
	w := &world{t, fake.NewClientset(objects...)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	nodes := map[string]*corev1.Node{}
	for name, zone := range map[string]string{"a1": "a", "b1": "b", "bare": ""} {
		nodes[name] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: zone}}}
	}
	go func() {
		ended <- Run(ctx, Options{
			Client: w.client, Clock: clock.Clock{Speed: 2}, Log: slog.New(slog.DiscardHandler),
			Node:  func(name string) *corev1.Node { return nodes[name] },
			Nodes: func() []*corev1.Node { return slices.Collect(maps.Values(nodes)) },
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func class(parameters map[string]string) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "zonal"}, Provisioner: Provisioner, Parameters: parameters}
}

// claim is one that Kubernetes' controller has marked as ours to serve.
func claim(node string) *corev1.PersistentVolumeClaim {
	name := "zonal"
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "u1", ResourceVersion: "7", Annotations: map[string]string{volume.AnnStorageProvisioner: Provisioner}},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &name, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}},
		},
	}
	if node != "" {
		c.Annotations[volume.AnnSelectedNode] = node
	}
	return c
}

func (w *world) volumes() []corev1.PersistentVolume {
	list, err := w.client.CoreV1().PersistentVolumes().List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return list.Items
}

// reach are the labels that nodes need to reach each volume.
func (w *world) reach() (out []string) {
	for _, v := range w.volumes() {
		r := v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0]
		out = append(out, r.Key+"="+r.Values[0])
	}
	return out
}

func (w *world) claim() *corev1.PersistentVolumeClaim {
	c, err := w.client.CoreV1().PersistentVolumeClaims("ns").Get(w.t.Context(), "data", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) update(c *corev1.PersistentVolumeClaim) {
	if _, err := w.client.CoreV1().PersistentVolumeClaims("ns").Update(w.t.Context(), c, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) events() (out []string) {
	list, _ := w.client.CoreV1().Events("ns").List(w.t.Context(), metav1.ListOptions{})
	for _, e := range list.Items {
		out = append(out, e.Reason+": "+e.Message)
	}
	return out
}

func TestMakesAVolumeInTheZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, class(map[string]string{TakesParameter: "10s"}), claim("b1"))
		w.after(4 * time.Second)
		if got := w.reach(); got != nil {
			t.Fatalf("too early: %v", got)
		}
		w.after(2 * time.Second) // at twice the speed
		v := w.volumes()[0]
		want := corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: "zonal", PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: Provisioner, VolumeHandle: "pvc-u1"}},
			ClaimRef:               &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: "ns", Name: "data", UID: "u1", ResourceVersion: "7"},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"b"}}},
			}}}},
		}
		if diff := cmp.Diff(want, v.Spec); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"ProvisioningSucceeded: Successfully provisioned volume pvc-u1"}, w.events()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestNodeWithoutAZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, class(nil), claim("bare"))
		w.after(time.Minute)
		if diff := cmp.Diff([]string{"kubernetes.io/hostname=bare"}, w.reach()); diff != "" {
			t.Error(diff)
		}
	})
}

// Without a node, for another provisioner, or with a volume: nothing is made.
func TestClaimsThatAskForNothing(t *testing.T) {
	for name, edit := range map[string]func(*corev1.PersistentVolumeClaim){
		"no node":   func(c *corev1.PersistentVolumeClaim) { delete(c.Annotations, volume.AnnSelectedNode) },
		"another's": func(c *corev1.PersistentVolumeClaim) { c.Annotations[volume.AnnStorageProvisioner] = "other.example" },
		"bound":     func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv" },
		"leaving":   func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{Time: time.Now()} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := claim("a1")
				edit(c)
				w := newWorld(t, class(nil), c)
				w.after(time.Minute)
				if got := w.reach(); got != nil {
					t.Errorf("made %v", got)
				}
			})
		})
	}
}

// A zone is full, or the node is gone: the scheduler gets the node's name back, and can choose another.
func TestDeclines(t *testing.T) {
	for node, why := range map[string]string{"b1": "insufficient capacity in b", "nowhere": `node "nowhere" not found`} {
		t.Run(node, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, class(map[string]string{FullParameter: "c,b"}), claim(node))
				w.after(time.Minute)
				c := w.claim()
				if at, ok := c.Annotations[volume.AnnSelectedNode]; ok {
					t.Fatalf("still for %s", at)
				}
				if diff := cmp.Diff([]string{`ProvisioningFailed: failed to provision volume with StorageClass "zonal": ` + why}, w.events()); diff != "" {
					t.Error(diff)
				}
				c.Annotations[volume.AnnSelectedNode] = "a1"
				w.update(c)
				w.after(time.Minute)
				if diff := cmp.Diff([]string{"topology.kubernetes.io/zone=a"}, w.reach()); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// The scheduler thinks better of it while the volume is in the making.
func TestNodeIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, class(map[string]string{TakesParameter: "10s"}), claim("b1"))
		w.after(3 * time.Second)
		w.update(claim(""))
		w.after(time.Second)
		w.update(claim("a1"))
		w.after(4 * time.Second)
		if got := w.reach(); got != nil {
			t.Fatalf("too early: %v", got)
		}
		w.after(2 * time.Second)
		if diff := cmp.Diff([]string{"topology.kubernetes.io/zone=a"}, w.reach()); diff != "" {
			t.Error(diff)
		}
	})
}

// What the server would not have is tried again.
func TestServerIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, class(nil))
		left := 3
		w.client.PrependReactor("create", "persistentvolumes", func(clienttesting.Action) (bool, runtime.Object, error) {
			left--
			return left >= 0, nil, errors.New("no")
		})
		w.client.PrependReactor("patch", "persistentvolumeclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
			left--
			return left >= 0, nil, apierrors.NewConflict(schema.GroupResource{}, "data", nil)
		})
		if err := w.client.Tracker().Add(claim("a1")); err != nil {
			t.Fatal(err)
		}
		w.after(time.Minute)
		if len(w.reach()) != 1 {
			t.Error("given up")
		}
	})
}

// Volumes go with their claims, if the class says so.
func TestRemovesWhatIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, class(nil))
		for name, edit := range map[string]func(*corev1.PersistentVolume){
			"gone":  func(*corev1.PersistentVolume) {},
			"bound": func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeBound },
			"kept": func(v *corev1.PersistentVolume) {
				v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
			},
			"other": func(v *corev1.PersistentVolume) { v.Annotations[volume.AnnDynamicallyProvisioned] = "other.example" },
		} {
			v := newVolume(claim("a1"), class(nil), place{corev1.LabelTopologyZone, "a"})
			v.Name, v.Status.Phase = name, corev1.VolumeReleased
			edit(v)
			if err := w.client.Tracker().Add(v); err != nil {
				t.Fatal(err)
			}
		}
		w.after(time.Minute)
		var left []string
		for _, v := range w.volumes() {
			left = append(left, v.Name)
		}
		if diff := cmp.Diff([]string{"bound", "kept", "other"}, left); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTakesIsTheSameForTheSame(t *testing.T) {
	a, b := takes(claim("a1"), class(nil), "a1"), takes(claim("a1"), class(nil), "b1")
	if a == b || a != takes(claim("a1"), class(nil), "a1") || a < time.Second || a >= 3*time.Second {
		t.Errorf("%v, %v", a, b)
	}
}

// Classes with Immediate have their volumes made before anybody needs them, in one place of those that they allow; others wait for a
// node. What fails later is written on the volume.
func TestImmediate(t *testing.T) {
	now, later := storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer
	zone := func(values ...string) []corev1.TopologySelectorTerm {
		return []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: corev1.LabelTopologyZone, Values: values}}}}
	}
	for name, test := range map[string]struct {
		mode  *storagev1.VolumeBindingMode
		terms []corev1.TopologySelectorTerm
		full  string
		want  []string
	}{
		"a zone that is allowed": {&now, zone("b"), "", []string{corev1.LabelTopologyZone + "=b"}},
		"none is there":          {&now, zone("c"), "", nil},
		"it is full":             {&now, zone("b"), "b", nil},
		"it waits for a node":    {&later, nil, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := class(map[string]string{FailsParameter: "mount", FullParameter: test.full})
				c.VolumeBindingMode, c.AllowedTopologies = test.mode, test.terms
				w := newWorld(t, c, claim(""))
				w.after(time.Minute)
				if diff := cmp.Diff(test.want, w.reach()); diff != "" {
					t.Error(diff)
				}
				for _, v := range w.volumes() {
					if got := v.Spec.CSI.VolumeAttributes[FailsParameter]; got != "mount" {
						t.Errorf("the volume fails to %q", got)
					}
				}
			})
		})
	}
}
