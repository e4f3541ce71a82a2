package kubelet

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/device"
	"github.com/berth-dev/berth/fleet/gpu"
	"github.com/berth-dev/berth/kube/dialect/hami"
)

// Parts of GPUs. The pod says how much it gets: in HAMi's annotations, which whoever scheduled it wrote, or in those by which it
// asked for a part. What is given is recorded with the pod like whole GPUs; how much of it is read from the pod each time.

// limit is how much of a GPU a container may use.
type limit struct {
	memory int64 // bytes; 0: all
	cores  int   // percent of the compute; 0: whatever others leave
}

// limits are those of a container, by UUID; a GPU that is not there has none.
type limits map[string]limit

// limitsOf are the limits that go with the devices of a container.
func limitsOf(pod *corev1.Pod, container string, by string, devices []gpu.Device) limits {
	out := limits{}
	if e := editionOf(by); e != nil {
		for _, g := range grantsOf(pod, container, e) {
			out[g.UUID] = limit{g.Memory << 20, int(g.Cores)}
		}
	}
	if by == device.ByAgent {
		memory, share, _ := partOf(pod)
		for _, d := range devices {
			if d.Replica == 0 {
				continue
			}
			l := limit{memory: memory << 20}
			if share > 0 {
				l = limit{memory: memoryOf(d) * int64(share) / 1000, cores: max(1, share/10)}
			}
			out[d.UUID] = l
		}
	}
	return out
}

// editionOf is the edition of HAMi's plugin that gives parts of GPUs, by its name; nil: none does.
func editionOf(by string) *hami.Edition {
	for _, e := range hami.Editions() {
		if e.Name == by {
			return &e
		}
	}
	return nil
}

// maxGrants bounds what is read of annotations that name GPUs, in bytes.
const maxGrants = 64 << 10

// grantsOf is what HAMi's plugin is told to give to a container of the pod; nil: nothing.
func grantsOf(pod *corev1.Pod, container string, e *hami.Edition) []hami.Grant {
	text := pod.Annotations[e.Allocated]
	if pod.Annotations[e.Node] != pod.Spec.NodeName || text == "" || len(text) > maxGrants {
		return nil
	}
	all, ok := hami.Grants(text)
	if !ok {
		return nil
	}
	lists := [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers}
	if e.Mains {
		lists = lists[1:]
	}
	i := 0
	for _, list := range lists {
		for k := range list {
			if list[k].Name == container && i < len(all) {
				return all[i]
			}
			i++
		}
	}
	return nil
}

// allocateByHAMi is what HAMi's plugin answers when the kubelet asks it for devices. It takes the pod that is being allocated on
// its node, and gives what its annotations say.
func allocateByHAMi(m *Machine, pod *corev1.Pod, c *corev1.Container, n int, e *hami.Edition) ([]gpu.Device, error) {
	grants := grantsOf(pod, c.Name, e)
	switch {
	case pod.Annotations[e.Node] != m.Name:
		return nil, fmt.Errorf("rpc error: code = Unknown desc = no binding pod found on node %s", m.Name)
	case len(grants) == 0:
		return nil, fmt.Errorf("rpc error: code = Unknown desc = no pending device allocation found")
	case len(grants) != n:
		return nil, fmt.Errorf("rpc error: code = Unknown desc = device number not matched")
	}
	var uuids []string
	for _, g := range grants {
		uuids = append(uuids, g.UUID)
	}
	return m.Devices.AllocateNamed(pod.UID, c.Name, e.Count, uuids)
}

// asksPart says whether the container asks HAMi's plugin for a part. That is of one GPU where the container does not say of how many.
func asksPart(c *corev1.Container, e *hami.Edition) bool {
	for _, name := range []string{e.Memory, e.Percentage, e.Cores} {
		if q := c.Resources.Limits[corev1.ResourceName(name)]; !q.IsZero() {
			return true
		}
	}
	return false
}

// partOf is the part of a GPU that the pod's annotations ask for: MiB of memory, or thousandths of a GPU. Berth's scheduler says
// what is wrong with a value that cannot be read; here it is no request.
func partOf(pod *corev1.Pod) (mib int64, thousandths int, ok bool) {
	for _, keys := range [][2]string{{v1alpha1.KeyGPUFraction, v1alpha1.KeyGPUMemory}, {"gpu-fraction", "gpu-memory"}} {
		if f, err := strconv.ParseFloat(said(pod, keys[0]), 64); err == nil && f > 0 && f <= 1 {
			return 0, int(math.Round(f * 1000)), true
		}
		if n, err := strconv.ParseInt(said(pod, keys[1]), 10, 32); err == nil && n > 0 {
			return n, 0, true
		}
	}
	return 0, 0, false
}

// said is what the pod says under the key: as an annotation, or else as a label.
func said(pod *corev1.Pod, key string) string {
	return cmp.Or(strings.TrimSpace(pod.Annotations[key]), strings.TrimSpace(pod.Labels[key]))
}

// partHolder is the container that gets the pod's part of a GPU: the one that KAI's key names, else the first; "": the pod asks for none.
func partHolder(pod *corev1.Pod) string {
	if _, _, ok := partOf(pod); !ok || wantsWhole(pod) || len(pod.Spec.Containers) == 0 {
		return ""
	}
	return cmp.Or(said(pod, "gpu-fraction-container-name"), pod.Spec.Containers[0].Name)
}

// wantedGPUs are those that the pod's binding names; nil: it names none.
func wantedGPUs(pod *corev1.Pod) []string {
	var out []string
	text := pod.Annotations[v1alpha1.KeyWantedGPUs]
	if text == "" || len(text) > maxGrants || json.Unmarshal([]byte(text), &out) != nil {
		return nil
	}
	return out
}

// allocateParts gives the pod the parts that the scheduler chose for it. One that nobody chose for gets none.
func allocateParts(m *Machine, pod *corev1.Pod) *rejection {
	container, wanted := partHolder(pod), wantedGPUs(pod)
	if container == "" || len(wanted) == 0 {
		return nil
	}
	if _, err := m.Devices.AllocateNamed(pod.UID, container, device.PartResource, wanted); err != nil {
		return unexpected(err)
	}
	return nil
}

// allocateWanted gives a container whole GPUs on a machine with an agent: those that the scheduler chose, if the pod has no others
// to share them among and they are free.
func allocateWanted(m *Machine, pod *corev1.Pod, c *corev1.Container, n int) ([]gpu.Device, error) {
	if wanted := wantedGPUs(pod); len(wanted) == n {
		if got, err := m.Devices.AllocateNamed(pod.UID, c.Name, device.Resource, wanted); err == nil {
			return got, nil
		}
	}
	return m.Devices.Allocate(pod.UID, c.Name, device.Resource, n)
}

// hamiPhases are what HAMi's plugin writes on a pod when it is through with it: nothing is left to allocate, and how it went.
func hamiPhases(pod *corev1.Pod, failed bool, e *hami.Edition) map[string]string {
	phase := "success"
	if failed {
		phase = "failed"
	}
	left := strings.Repeat(";", len(pod.Spec.InitContainers)+len(pod.Spec.Containers))
	if e.Mains {
		left = strings.Repeat(";", len(pod.Spec.Containers)-1)
	}
	if failed {
		left = pod.Annotations[e.ToAllocate]
	}
	return map[string]string{e.BindPhase: phase, e.ToAllocate: left}
}

// unlockTries is how often a lock is tried to be taken away. One that stays counts for nothing after hami.LockTimeout.
const unlockTries = 8

// unlock takes away the lock by which the scheduler kept other pods from being allocated on the node, if it is the pod's.
func (k *Kubelet) unlock(ctx context.Context, node, key string, pod types.NamespacedName) {
	for range unlockTries {
		n, err := k.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			break
		}
		_, namespace, name, ok := hami.LockedFor(n.Annotations[key])
		if !ok || namespace != pod.Namespace || name != pod.Name {
			return
		}
		delete(n.Annotations, key)
		_, err = k.client.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
		if !apierrors.IsConflict(err) {
			if err != nil && ctx.Err() == nil {
				k.log.Warn("unlock", "node", node, "err", err)
			}
			return
		}
		sleep(ctx, 20*time.Millisecond)
	}
}

// limitEnv is the environment by which HAMi's library in the container knows its limits.
func (p *process) limitEnv(env map[string]string) {
	for i, name := range distinct(p.gpus) {
		l, limited := p.limits[name]
		if !limited {
			continue
		}
		env[fmt.Sprintf("CUDA_DEVICE_MEMORY_LIMIT_%d", i)] = fmt.Sprintf("%dm", l.memory>>20)
		if i == 0 {
			env["CUDA_DEVICE_SM_LIMIT"] = strconv.Itoa(l.cores)
		}
	}
}

// shown are readings as a container with these limits sees them: its limit as the GPU's memory, and of that what it uses itself.
func (l limits) shown(all []gpu.Reading) []gpu.Reading {
	for i := range all {
		r := &all[i]
		own := l[r.UUID]
		if own.memory == 0 {
			continue
		}
		r.MemoryMiB, r.MemUsedMiB = min(r.MemoryMiB, int(own.memory>>20)), 0
		for _, p := range r.Processes {
			r.MemUsedMiB += p.UsedMiB
		}
	}
	return all
}

// capped is what is left of a load, in percent, on the GPU.
func (l limits) capped(uuid string, util int) int {
	if most := l[uuid].cores; most > 0 {
		return min(util, most)
	}
	return util
}

// tellHAMi writes what HAMi's plugin writes once it has been asked for a pod, and unlocks the node.
func (w *worker) tellHAMi(m *Machine, pod *corev1.Pod, refused bool) {
	e := editionOf(m.Devices.PartsBy())
	if e == nil || pod.Annotations[e.Node] != m.Name || !wantsWhole(pod) {
		return
	}
	if pod.Annotations[e.BindPhase] == "allocating" {
		w.change(func() { w.written = hamiPhases(pod, refused, e) })
	}
	w.k.workers.Go(func() {
		w.k.unlock(w.k.ctx, m.Name, e.LockKey, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	})
}
