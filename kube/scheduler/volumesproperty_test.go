package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/storage/volume"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/convert"
)

// Whatever storage, users and time do, no pod is bound while a claim of a member that starts with it has no
// volume, nor where its volume is not; and when all is quiet everybody has been bound.
func TestVolumesWhateverHappens(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		steps := rapid.SliceOfN(rapid.IntRange(0, 8*16-1), 1, 10).Draw(r, "steps")
		var wrong []string
		synctest.Test(t, func(t *testing.T) { wrong = play(t, steps) })
		if len(wrong) > 0 {
			r.Fatalf("%q", wrong)
		}
	})
}

// drama is a world in which things happen, and its referee.
type drama struct {
	*world
	stop  func() error
	wrong []string
}

func play(t *testing.T, steps []int) []string {
	objects := append(gangWithClaims("g", "zonal", 2), gangWithClaims("h", "local", 2)...)
	objects = append(objects, zonal(), local(), openClaim("shared", "zonal"), claiming("a", "shared"), claiming("b", "shared"))
	for _, n := range []string{"1", "2", "3"} {
		objects = append(objects, node("n"+n, "r"+n, 8), disk("d"+n, "r"+n))
	}
	d := &drama{world: newWorld(t, objects...)}
	d.answer(d.judge) // under the client's lock: it asks the tracker alone
	d.stop = d.start()
	for _, step := range steps {
		d.step(step%8, step/8)
	}
	d.quiet()
	return d.wrong
}

// judge is asked about every binding.
func (d *drama) judge(b *corev1.Binding) error {
	get := func(name string) *corev1.Pod {
		o, err := d.client.Tracker().Get(podsResource, "default", name)
		if err != nil {
			return nil
		}
		return o.(*corev1.Pod)
	}
	p := get(b.Name)
	if p == nil {
		return nil
	}
	var n *corev1.Node
	if o, err := d.client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("nodes"), "", b.Target.Name); err == nil {
		n = o.(*corev1.Node)
	}
	for _, name := range d.together(p) {
		member := get(name)
		if member == nil || member.Spec.NodeName != "" {
			continue
		}
		for _, v := range member.Spec.Volumes {
			c := d.claim(v.PersistentVolumeClaim.ClaimName)
			if !convert.Bound(c) {
				d.wrong = append(d.wrong, fmt.Sprintf("%s bound while %s of %s has no volume", b.Name, c.Name, name))
			} else if name == b.Name && n != nil && !convert.Reaches(d.volume(c.Spec.VolumeName), n) {
				d.wrong = append(d.wrong, fmt.Sprintf("%s bound to %s, where %s is not", b.Name, n.Name, c.Spec.VolumeName))
			}
		}
	}
	return nil
}

// together are the members of the pod's gang.
func (d *drama) together(p *corev1.Pod) []string {
	if g := p.Annotations["berth.dev/gang"]; g != "" {
		return []string{g + "-0", g + "-1"}
	}
	return []string{p.Name}
}

var dramaClaims = []string{"data-g-0", "data-g-1", "data-h-0", "data-h-1", "shared"}

// step does one thing; with picks to what.
func (d *drama) step(what, with int) {
	claim, n := dramaClaims[with%len(dramaClaims)], 1+with%3
	switch what {
	case 0:
		d.serve(fmt.Sprintf("r%d", n))
	case 1:
		d.serve("")
	case 2:
		if d.selected(claim)[0] != "" && !convert.Bound(d.claim(claim)) {
			d.decline(claim)
		}
	case 3:
		class := d.claim(claim).Spec.StorageClassName
		d.remove("persistentvolumeclaims", "default", claim)
		d.after(time.Duration(with%2) * time.Second)
		d.add(openClaim(claim, *class))
	case 4:
		d.recreate([]string{"g-0", "g-1", "h-0", "h-1", "a", "b"}[with%6])
	case 5:
		_ = d.stop()
		d.stop = d.start()
	case 6:
		d.after([]time.Duration{time.Millisecond, time.Second, cluster.RefuseFor, assumeFor / 2}[with%4])
	case 7:
		d.remove("nodes", "", fmt.Sprintf("n%d", n))
		d.after(time.Duration(with%2) * time.Second)
		d.add(node(fmt.Sprintf("n%d", n), fmt.Sprintf("r%d", n), 8))
	}
	synctest.Wait()
}

// recreate makes a pod anew, as its controller would.
func (d *drama) recreate(name string) {
	p := d.pod(name).DeepCopy()
	d.remove("pods", "default", name)
	fresh := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: p.Annotations}, Spec: p.Spec, Status: corev1.PodStatus{Phase: corev1.PodPending}}
	fresh.Spec.NodeName = ""
	d.add(fresh)
}

// serve makes the volumes that are asked for, in the rack or, if that is "", where they are asked for, and binds
// those that were taken.
func (d *drama) serve(rack string) {
	for _, name := range dramaClaims {
		c := d.claim(name)
		at := c.Annotations[volume.AnnSelectedNode]
		if convert.Bound(c) || at == "" {
			continue
		}
		_, v := boundClaim(name, "r"+at[1:])
		if rack != "" {
			_, v = boundClaim(name, rack)
		}
		v.Name = "pv-" + string(c.UID)
		v.Spec.ClaimRef.UID = c.UID
		d.add(v)
		d.settle(name, v.Name)
	}
	list, _ := d.client.CoreV1().PersistentVolumes().List(d.t.Context(), metav1.ListOptions{})
	for i := range list.Items {
		d.attend(&list.Items[i])
	}
	d.rest()
}

// attend does with a disk as Kubernetes' controller does: it binds the claim, or frees the disk of one that is gone.
func (d *drama) attend(v *corev1.PersistentVolume) {
	ref := v.Spec.ClaimRef
	if ref == nil || v.Spec.StorageClassName != "local" {
		return
	}
	switch c := d.claim(ref.Name); {
	case c.UID == ref.UID && !convert.Bound(c):
		d.settle(ref.Name, v.Name)
	case c.UID != ref.UID:
		v.Spec.ClaimRef = nil
		d.mu.Lock()
		defer d.mu.Unlock()
		v.ResourceVersion = d.next()
		if err := d.client.Tracker().Update(volumesResource, runtime.Object(v), ""); err != nil {
			d.t.Fatal(err)
		}
	}
}

// quiet lets everybody do their work until nothing is left to do.
func (d *drama) quiet() {
	pods := []string{"g-0", "g-1", "h-0", "h-1", "a", "b"}
	for range 20 {
		d.serve("")
		if !slices.Contains(d.at(pods...), "") {
			return
		}
		d.after(cluster.RefuseFor)
	}
	for i, at := range d.at(pods...) {
		if at == "" {
			d.wrong = append(d.wrong, fmt.Sprintf("%s is not bound: %q", pods[i], d.said(pods[i])))
		}
	}
}

// A member is on its way to join a gang, and waits for its volume, when the last member that ran is made anew: the gang
// begins anew, and so whole.
func TestAGangThatLosesItsLastMemberBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if wrong := play(t, []int{0, 12, 11, 94, 4, 3}); len(wrong) > 0 {
			t.Error(wrong)
		}
	})
}

// A claim that had its volume when the gang was planned loses it while the others are seen to.
func TestAClaimThatHadItsVolumeIsMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if wrong := play(t, []int{127, 19, 0, 27}); len(wrong) > 0 {
			t.Error(wrong)
		}
	})
}
