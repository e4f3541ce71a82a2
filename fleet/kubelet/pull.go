package kubelet

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// pull is an image on a machine, or on its way there.
type pull struct {
	ready time.Time     // wall time at which it is there
	took  time.Duration // simulated
}

// failure is a container that cannot be started: the waiting state it shows, and when to try again.
type failure struct {
	reason, message string
	retry           time.Time
}

// fetch gives the machine's copy of an image, starting a pull that takes the simulated time took if
// there is none. first says that this call started it.
func (h *host) fetch(name string, took time.Duration, wall func(time.Duration) time.Duration, now time.Time) (p *pull, first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p = h.images[name]; p != nil {
		return p, false
	}
	p = &pull{ready: now.Add(wall(took)), took: took}
	h.images[name] = p
	return p, true
}

// present says whether the image is on the machine.
func (h *host) present(name string, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.images[name]
	return p != nil && !now.Before(p.ready)
}

// known says whether the image is on the machine or on its way.
func (h *host) known(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.images[name] != nil
}

// Images lists the images on the node, by name, as a container runtime names them: by digest and by tag.
func (k *Kubelet) Images(node string, now time.Time) []corev1.ContainerImage {
	k.mu.Lock()
	h := k.hosts[node]
	k.mu.Unlock()
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []corev1.ContainerImage
	for _, name := range slices.Sorted(maps.Keys(h.images)) {
		im, err := parseImage(name)
		if p := h.images[name]; err != nil || now.Before(p.ready) {
			continue
		}
		names := []string{im.id()}
		if im.digest == "" {
			names = append(names, im.String())
		}
		if !slices.ContainsFunc(out, func(o corev1.ContainerImage) bool { return o.Names[0] == names[0] }) {
			out = append(out, corev1.ContainerImage{Names: names, SizeBytes: imageBytes(name)})
		}
	}
	return out
}

// ensureImage sees to it that the container's image is on the machine. It gives when to look again
// if it is on its way, and what to show if it cannot be had.
func (c *container) ensureImage(m *Machine, now time.Time) (im image, later time.Time, bad *failure) {
	name := c.spec.Image
	im, err := parseImage(name)
	if err != nil {
		msg := fmt.Sprintf("Failed to apply default image tag %q: couldn't parse image name %q: %v", name, name, err)
		c.event(corev1.EventTypeWarning, "InspectFailed", "%s", msg)
		return im, later, c.refused("InvalidImageName", msg, now)
	}
	if !c.w.host.present(name, now) {
		if c.spec.ImagePullPolicy == corev1.PullNever {
			msg := fmt.Sprintf("Container image %q is not present with pull policy of Never", name)
			c.event(corev1.EventTypeWarning, "ErrImageNeverPull", "%s", msg)
			return im, later, c.refused("ErrImageNeverPull", msg, now)
		}
		why := im.missing()
		if m.faults().RegistryDown && why == "" && !c.w.host.known(name) {
			why = im.unreachable()
		}
		if why != "" {
			return im, later, c.pullFails(why, now)
		}
	}
	return im, c.awaitPull(m, now), nil
}

// awaitPull starts or follows the pull of an image that exists; zero: it is there.
func (c *container) awaitPull(m *Machine, now time.Time) time.Time {
	k, name := c.w.k, c.spec.Image
	took := m.PullTime
	if c.w.spec.Pull >= 0 {
		took = c.w.spec.Pull
	}
	took += m.faults().PullSlower
	p, first := c.w.host.fetch(name, took, k.clock.Wall, now)
	if first {
		c.event(corev1.EventTypeNormal, "Pulling", "Pulling image %q", name)
		c.pulling = true
	}
	switch {
	case now.Before(p.ready):
		c.pulling = true
		return p.ready
	case c.pulling:
		c.pulling = false
		took := p.took.Truncate(time.Millisecond)
		c.event(corev1.EventTypeNormal, "Pulled", "Successfully pulled image %q in %v (%v including waiting). Image size: %d bytes.", name, took, took, imageBytes(name))
		if k.imagesChanged != nil {
			k.imagesChanged(c.w.host.name)
		}
	default:
		c.event(corev1.EventTypeNormal, "Pulled", "Container image %q already present on machine and can be accessed by the pod", name)
	}
	return time.Time{}
}

// pullFails plays a pull that cannot succeed: an error, then a back-off that grows.
func (c *container) pullFails(why string, now time.Time) *failure {
	name, k := c.spec.Image, c.w.k
	if until := c.pulls.until(c.pullFailed, k.clock); now.Before(until) {
		c.event(corev1.EventTypeNormal, "BackOff", "Back-off pulling image %q", name)
		c.event(corev1.EventTypeWarning, "Failed", "Error: ImagePullBackOff")
		return &failure{"ImagePullBackOff", fmt.Sprintf("Back-off pulling image %q: ErrImagePull: %s", name, why), until}
	}
	c.event(corev1.EventTypeNormal, "Pulling", "Pulling image %q", name)
	c.event(corev1.EventTypeWarning, "Failed", "Failed to pull image %q: %s", name, why)
	c.event(corev1.EventTypeWarning, "Failed", "Error: ErrImagePull")
	c.pulls.tried(c.pullFailed, now, k.clock)
	c.pullFailed = now
	return &failure{"ErrImagePull", why, now.Add(min(k.clock.Wall(c.pulls.delay), 2*time.Second))}
}

// refused is a failure that only a change of the pod can end; the kubelet keeps trying all the same.
func (c *container) refused(reason, message string, now time.Time) *failure {
	c.event(corev1.EventTypeWarning, "Failed", "Error: %s", reason)
	return &failure{reason, message, now.Add(syncRetry)}
}

// imageBytes makes up a size that is always the same for a name, between 100 MB and 8 GB.
func imageBytes(name string) int64 {
	var h uint64 = 14695981039346656037 // FNV-1a
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return 100_000_000 + int64(h%7_900_000_000)
}
