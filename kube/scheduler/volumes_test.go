package scheduler

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-helpers/storage/volume"

	"github.com/berth-dev/berth/kube/cluster"
)

func TestVolumesOfAllComeBeforeBindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, append(twoRacks(), gangWithClaims("g", "zonal", 2)...)...)
		w.start()
		wantSelected(t, w, []string{"n1", "n2"}, "data-g-0", "data-g-1")
		w.provide("data-g-0", "r1")
		w.after(20 * time.Second)
		if len(w.tried()) > 0 {
			t.Fatalf("bound with a volume missing: %q", w.tried())
		}
		w.provide("data-g-1", "r2")
		wantAt(t, w, []string{"n1", "n2"}, "g-0", "g-1")
	})
}

// The room of a start that waits for its volumes is not given to others.
func TestVolumesHoldTheirRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, zonal(), node("n1", "r1", 1), openClaim("data", "zonal"), claiming("a", "data"))
		w.start()
		w.add(pod("b", 1))
		w.rest()
		w.provide("data", "r1")
		wantAt(t, w, []string{"n1", ""}, "a", "b")
	})
}

func TestProvisionerGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, zonal(), node("n1", "r1", 1), openClaim("data", "zonal"), claiming("a", "data"))
		w.start()
		wantSelected(t, w, []string{"n1"}, "data")
		w.decline("data")
		want := []string{"FailedScheduling: needs 1 pod of 1 nvidia.com/gpu; 0 fit; 1 node refused it: no volume could be made there for claim default/data"}
		if diff := cmp.Diff(want, w.said("a")); diff != "" {
			t.Error(diff)
		}
		w.add(node("n2", "r2", 1))
		w.rest()
		wantSelected(t, w, []string{"n2"}, "data")
		w.provide("data", "r2")
		wantAt(t, w, []string{"n2"}, "a")
	})
}

// One member gets its volume and another does not: none is bound, the volume stays, and the next plan keeps to it.
func TestOneMemberWithoutVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, append(twoRacks(), gangWithClaims("g", "zonal", 2)...)...)
		w.start()
		w.provide("data-g-0", "r1")
		w.decline("data-g-1")
		if len(w.tried()) > 0 {
			t.Fatalf("tried %q", w.tried())
		}
		w.add(node("n3", "r3", 1))
		w.rest()
		wantSelected(t, w, []string{"n1", "n3"}, "data-g-0", "data-g-1")
		w.provide("data-g-1", "r3")
		wantAt(t, w, []string{"n1", "n3"}, "g-0", "g-1")
	})
}

// A claim goes, is lost or is replaced while the others are being seen to: the others are let go of.
func TestClaimMovesWhileBeingBound(t *testing.T) {
	for name, move := range map[string]func(*world){
		"deleted": func(w *world) { w.remove("persistentvolumeclaims", "default", "data-g-1") },
		"lost": func(w *world) {
			w.editClaim("data-g-1", func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost })
		},
		"leaving": func(w *world) {
			w.editClaim("data-g-1", func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{Time: time.Now()} })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, append(twoRacks(), gangWithClaims("g", "zonal", 2)...)...)
				w.start()
				wantSelected(t, w, []string{"n1"}, "data-g-0")
				move(w)
				w.rest()
				wantSelected(t, w, []string{""}, "data-g-0")
				if got := w.condition("g-1"); got != "False ClaimsNotReady" || len(w.tried()) > 0 {
					t.Errorf("condition %q, tried %q", got, w.tried())
				}
			})
		})
	}
}

// The pod, or the node, goes while the volume is being made.
func TestWorldMovesWhileVolumesAreMade(t *testing.T) {
	for name, move := range map[string]func(*world){
		"pod":  func(w *world) { w.remove("pods", "default", "g-1") },
		"node": func(w *world) { w.remove("nodes", "", "n2") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, append(twoRacks(), gangWithClaims("g", "zonal", 2)...)...)
				w.start()
				move(w)
				w.rest()
				wantSelected(t, w, []string{"", ""}, "data-g-0", "data-g-1")
				w.provide("data-g-0", "r1")
				w.provide("data-g-1", "r2")
				wantAt(t, w, []string{""}, "g-0")
			})
		})
	}
}

// The volume comes where the node is not: a provisioner may know better. The pod goes there.
func TestVolumeComesElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, append(twoRacks(), openClaim("data", "zonal"), claiming("a", "data"))...)
		w.start()
		wantSelected(t, w, []string{"n1"}, "data")
		w.provide("data", "r2")
		if diff := cmp.Diff([]string{"a n2"}, w.tried()); diff != "" {
			t.Error(diff)
		}
	})
}

// Somebody else writes to the claim at the same time: it is tried again on what it is then.
func TestConflictOnTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, zonal(), node("n1", "r1", 1), openClaim("data", "zonal"), claiming("a", "data"))
		left := 3
		w.intercept(func(name string) error {
			if left--; left >= 0 {
				w.editClaim(name, func(c *corev1.PersistentVolumeClaim) {
					metav1.SetMetaDataLabel(&c.ObjectMeta, "touched", fmt.Sprint(left))
				})
				return conflict("the object has been modified")
			}
			return nil
		})
		w.start()
		w.after(5 * time.Second)
		wantSelected(t, w, []string{"n1"}, "data")
		if got := w.claim("data").Labels["touched"]; got != "0" {
			t.Errorf("what the other wrote is gone: %q", got)
		}
	})
}

// A server that does not let us write refuses every node, and is not asked all the time.
func TestClaimMayNotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, append(twoRacks(), openClaim("data", "zonal"), claiming("a", "data"))...)
		tries := 0
		w.intercept(func(string) error {
			tries++
			return apierrors.NewForbidden(claimsResource.GroupResource(), "data", nil)
		})
		w.start()
		w.after(10 * time.Minute)
		if tries < 10 || tries > 60 || len(w.tried()) > 0 {
			t.Errorf("%d requests in ten minutes, tried %q", tries, w.tried())
		}
	})
}

// A provisioner that never answers: in time the claim is taken back and another node is tried.
func TestVolumeDoesNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, append(twoRacks(), openClaim("data", "zonal"), claiming("a", "data"))...)
		w.start()
		wantSelected(t, w, []string{"n1"}, "data")
		w.after(assumeFor*2/5 - 5*time.Second)
		wantSelected(t, w, []string{"n1"}, "data")
		w.after(5 * time.Second)
		wantSelected(t, w, []string{"n2"}, "data")
		w.provide("data", "r2")
		wantAt(t, w, []string{"n2"}, "a")
	})
}

// The scheduler ends between note and binding. Its successor goes on from what it finds, and writes nothing twice.
func TestSuccessorGoesOn(t *testing.T) {
	for name, between := range map[string]func(*world){
		"nothing came": func(*world) {},
		"one volume":   func(w *world) { w.provide("data-g-1", "r2") },
		"both volumes": func(w *world) { w.provide("data-g-1", "r2"); w.provide("data-g-0", "r1") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, append(twoRacks(), gangWithClaims("g", "zonal", 2)...)...)
				stop := w.start()
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				wantSelected(t, w, []string{"n1", "n2"}, "data-g-0", "data-g-1")
				between(w)
				before := len(w.patched())
				w.start()
				for i, rack := range []string{"r1", "r2"} {
					if name := fmt.Sprintf("data-g-%d", i); w.claim(name).Spec.VolumeName == "" {
						w.provide(name, rack)
					}
				}
				wantAt(t, w, []string{"n1", "n2"}, "g-0", "g-1")
				if more := w.patched()[before:]; slices.ContainsFunc(more, func(p string) bool { return p[:3] == "per" }) {
					t.Errorf("wrote %q", more)
				}
			})
		})
	}
}

// A note for a node that is gone holds nobody.
func TestSelectedNodeIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claim := openClaim("data", "zonal")
		claim.Annotations = map[string]string{volume.AnnSelectedNode: "n0"}
		w := newWorld(t, zonal(), node("n1", "r1", 1), claim, claiming("a", "data"))
		w.start()
		wantSelected(t, w, []string{"n1"}, "data")
	})
}

func TestTakesAVolumeThatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, local(), node("n1", "r1", 1), node("n2", "r2", 1), disk("d2", "r2"), openClaim("data", "local"), claiming("a", "data"))
		w.start()
		claim := w.claim("data")
		want := &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: "default", Name: "data", UID: claim.UID, ResourceVersion: claim.ResourceVersion}
		if diff := cmp.Diff(want, w.volume("d2").Spec.ClaimRef); diff != "" {
			t.Fatal(diff)
		}
		w.settle("data", "d2")
		wantAt(t, w, []string{"n2"}, "a")
	})
}

// Two gangs are after the same volume: one has it, the other waits whole and has its turn with the next volume.
func TestTwoGangsAfterOneVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := append(gangWithClaims("g", "local", 1), gangWithClaims("h", "local", 1)...)
		w := newWorld(t, append(objects, local(), node("n1", "r1", 8), disk("d1", "r1"))...)
		w.start()
		w.settleAll()
		wantAt(t, w, []string{"n1", ""}, "g-0", "h-0")
		if got := w.condition("h-0"); got != "False Unschedulable" {
			t.Errorf("condition %q", got)
		}
		w.add(disk("d2", "r1"))
		w.after(cluster.RefuseFor)
		w.settleAll()
		wantAt(t, w, []string{"n1"}, "h-0")
	})
}

// Every node has a disk and room for the whole gang: its members spread, one to a disk.
func TestGangSpreadsOverDisks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := append(gangWithClaims("g", "local", 4), local())
		for _, n := range []string{"1", "2", "3", "4"} {
			objects = append(objects, node("n"+n, "r"+n, 8), disk("d"+n, "r"+n))
		}
		w := newWorld(t, objects...)
		w.start()
		w.settleAll()
		got := w.at("g-0", "g-1", "g-2", "g-3")
		slices.Sort(got)
		if diff := cmp.Diff([]string{"n1", "n2", "n3", "n4"}, got); diff != "" {
			t.Error(diff)
		}
	})
}

// Somebody else takes the volume between plan and write.
func TestVolumeIsTakenByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, local(), node("n1", "r1", 1), node("n2", "r2", 1), disk("d1", "r1"), disk("d2", "r2"), openClaim("data", "local"), claiming("a", "data"))
		first := true
		w.client.PrependReactor("patch", "persistentvolumes", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if !first {
				return false, nil, nil
			}
			first = false
			v := w.volume("d1").DeepCopy()
			v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "another", UID: "another"}
			w.mu.Lock()
			defer w.mu.Unlock()
			v.ResourceVersion = w.next()
			if err := w.client.Tracker().Update(volumesResource, v, ""); err != nil {
				t.Error(err)
			}
			return true, nil, conflict("the object has been modified")
		})
		w.start()
		w.after(time.Second)
		if w.volume("d2").Spec.ClaimRef == nil {
			t.Fatal("did not turn to the other")
		}
		w.settle("data", "d2")
		wantAt(t, w, []string{"n2"}, "a")
	})
}

// All members share one claim: its volume is made for the first, and those who cannot reach it are placed anew.
func TestSharedClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := append(gang("g", 2), openClaim("data", "zonal"))
		for _, o := range objects[:2] {
			o.(*corev1.Pod).Spec.Volumes = claiming("x", "data").Spec.Volumes
		}
		w := newWorld(t, append(twoRacks(), objects...)...)
		w.start()
		wantSelected(t, w, []string{"n1"}, "data")
		w.provide("data", "r1")
		if len(w.tried()) > 0 {
			t.Fatalf("tried %q", w.tried())
		}
		w.add(node("n3", "r1", 1))
		w.rest()
		wantAt(t, w, []string{"n1", "n3"}, "g-0", "g-1")
	})
}

// Two lone pods of one claim: the second waits for what the first asked for.
func TestTwoStartsShareAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, zonal(), node("n1", "r1", 1), node("n2", "r1", 1), openClaim("data", "zonal"), claiming("a", "data"), claiming("b", "data"))
		w.start()
		w.provide("data", "r1")
		wantAt(t, w, []string{"n1", "n2"}, "a", "b")
		got := slices.DeleteFunc(w.patched(), func(s string) bool { return strings.HasPrefix(s, "pods/status ") }) // their terms
		if diff := cmp.Diff([]string{"persistentvolumeclaims/ data"}, got); diff != "" {
			t.Error(diff)
		}
	})
}

// A shadow decides and asks for nothing.
func TestShadowAsksForNoVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, zonal(), node("n1", "r1", 1), openClaim("data", "zonal"), claiming("a", "data"))
		w.start(func(o *Options) { o.Shadow = true })
		wantSelected(t, w, []string{""}, "data")
	})
}

// What is written says which version of the claim it is about, so that it cannot fall on another.
func TestPatchNamesTheVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, zonal(), node("n1", "r1", 1), openClaim("data", "zonal"), claiming("a", "data"))
		var body []byte
		before := w.claim("data")
		w.client.PrependReactor("patch", "persistentvolumeclaims", func(a clienttesting.Action) (bool, runtime.Object, error) {
			body = a.(clienttesting.PatchAction).GetPatch()
			return false, nil, nil
		})
		w.start()
		var got, want any
		_ = json.Unmarshal(body, &got)
		_ = json.Unmarshal(fmt.Appendf(nil, `{"metadata":{"uid":%q,"resourceVersion":%q,"annotations":{"volume.kubernetes.io/selected-node":"n1"}}}`, before.UID, before.ResourceVersion), &want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// The volumes of a gang that must be in one rack lie in two. It says so, to people and not to autoscalers, and
// goes on when one side is made anew.
func TestVolumesApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, append(gangWithClaims("g", "zonal", 2, "topology-required", "rack"), zonal(), node("n1", "r1", 2), node("n2", "r2", 2))...)
		w.provide("data-g-0", "r1")
		w.provide("data-g-1", "r2")
		w.start()
		want := []string{"FailedScheduling: its gang must be in one rack, but its volumes are apart: pod g-0 can be in r1 and pod g-1 in r2; delete the claims of one side to have them made anew"}
		if diff := cmp.Diff(want, w.said("g-0")); diff != "" {
			t.Error(diff)
		}
		if got := w.condition("g-1"); got != "False ClaimsNotReady" {
			t.Errorf("condition %q", got)
		}
		w.remove("persistentvolumeclaims", "default", "data-g-1")
		w.rest()
		w.add(openClaim("data-g-1", "zonal"))
		w.rest()
		wantSelected(t, w, []string{"n1"}, "data-g-1")
		w.remove("persistentvolumes", "", "pv-data-g-1")
		w.provide("data-g-1", "r1")
		wantAt(t, w, []string{"n1", "n1"}, "g-0", "g-1")
	})
}
