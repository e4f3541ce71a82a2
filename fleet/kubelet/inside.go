package kubelet

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/berth-dev/berth/fleet/shell"
)

// enter makes the container's inside: a file system of its own with the pod's volumes mounted, the
// pod's network, and the programs it has.
func (p *process) enter() *shell.Container {
	w := p.c.w
	pod := w.current()
	root := shell.NewFS()
	if p.spec.WorkingDir != "" {
		_ = root.MkdirAll(p.spec.WorkingDir, 0o755) // without it commands say that it is missing
	}
	for i := range p.spec.VolumeMounts {
		if err := p.mount(root, i); err != nil {
			w.k.log.Warn("mount", "pod", pod.Name, "container", p.spec.Name, "path", p.spec.VolumeMounts[i].MountPath, "err", err)
		}
	}
	c := &shell.Container{
		Hostname: hostname(pod), IP: p.podIP, FS: root, Net: p.net, Clock: w.k.clock, Programs: p.programs(),
	}
	if !p.mayBeShell() || !c.Known(p.argv[0]) { // what is not the shell's own is process 1 all the same
		c.Init = &shell.Init{Args: p.argv, Signal: p.signal}
	}
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
	return root.Mount(m.MountPath, v, m.ReadOnly)
}
