package kubelet

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"

	"github.com/berth-dev/berth/fleet/shell"
)

// enter makes the container's inside: a file system of its own with the pod's volumes mounted, the
// pod's network, and the programs it has.
func (p *process) enter() *shell.Container {
	w := p.c.w
	pod := w.current()
	root := w.k.budget.NewFS()
	if p.spec.WorkingDir != "" {
		_ = root.MkdirAll(p.spec.WorkingDir, 0o755) // without it commands say that it is missing
	}
	for i := range p.spec.VolumeMounts {
		if err := p.mount(root, i); err != nil {
			w.k.log.Warn("mount", "pod", pod.Name, "container", p.spec.Name, "path", p.spec.VolumeMounts[i].MountPath, "err", err)
		}
	}
	c := &shell.Container{
		Hostname: hostname(pod), Hosts: hostsOf(pod, p.podIP), Resolver: resolverOf(pod), IP: p.podIP, FS: root, Net: p.net, Clock: w.k.clock, Programs: p.programs(), Machine: p.m.inside(),
		Budget: w.k.budget, Memory: p.spec.Resources.Limits.Memory().Value(),
	}
	if !p.mayBeShell() || !c.Known(p.argv[0]) { // what is not the shell's own is process 1 all the same
		c.Init = &shell.Init{Args: p.argv, Signal: p.signal}
	}
	p.addDevices(root)
	p.entered.Store(true)
	return c
}

// mount puts one of the pod's volumes, or a part of it, where the container wants it.
func (p *process) mount(root *shell.FS, i int) error {
	m := &p.spec.VolumeMounts[i]
	v := p.mounts[m.Name]
	if v == nil {
		return fmt.Errorf("no volume %q", m.Name)
	}
	sub := m.SubPath
	if m.SubPathExpr != "" {
		sub = expand(m.SubPathExpr, p.env)
	}
	if sub != "" {
		part, err := v.Sub(path.Clean("/" + sub))
		if errors.Is(err, fs.ErrNotExist) { // a kubelet makes the directory
			if err = v.MkdirAll(path.Clean("/"+sub), 0o750); err == nil {
				part, err = v.Sub(path.Clean("/" + sub))
			}
		}
		if err != nil {
			return err
		}
		v = part
	}
	return root.Mount(m.MountPath, v, m.ReadOnly || p.fromAPI(m.Name))
}

// fromAPI says whether a volume's content comes from objects, which nobody writes to through a volume.
func (p *process) fromAPI(name string) bool {
	volumes := p.c.w.current().Spec.Volumes
	for i := range volumes {
		if volumes[i].Name == name {
			return fromAPI(&volumes[i])
		}
	}
	return false
}

// addDevices puts the files of the NVIDIA driver where its container toolkit does. They are empty.
func (p *process) addDevices(root *shell.FS) {
	gpus := p.gpus
	if p.role != "" {
		gpus = p.m.Devices.Devices()
	}
	if len(gpus) == 0 {
		return
	}
	names := []string{"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"}
	for _, d := range gpus {
		names = append(names, "nvidia"+strconv.Itoa(d.Index))
	}
	for _, name := range names {
		_ = root.WriteFile("/dev/"+name, nil, 0o666) // only a mount over /dev can be in the way
	}
}

// inside is what a container sees of the machine.
func (m *Machine) inside() shell.Machine {
	node := m.Node()
	if node == nil {
		return shell.Machine{}
	}
	return shell.Machine{CPUs: m.cpus(), MemoryKiB: node.Status.Capacity.Memory().Value() >> 10, Kernel: node.Status.NodeInfo.KernelVersion}
}
