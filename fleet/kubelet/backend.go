package kubelet

import (
	"context"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/fleet/shell"
	"github.com/berth-dev/berth/fleet/stream"
)

var (
	_ stream.Backend = (*Kubelet)(nil)
	_ stream.Checker = (*Kubelet)(nil)
)

// Check implements stream.Checker: the pod is here, and the container, if one is named, runs.
func (k *Kubelet) Check(_ context.Context, ref stream.Ref) error {
	if ref.Container == "" {
		_, err := k.podFor(ref)
		return err
	}
	_, err := k.processFor(ref)
	return err
}

// Logs implements stream.Backend.
func (k *Kubelet) Logs(ctx context.Context, ref stream.Ref, o *corev1.PodLogOptions, out io.Writer) error {
	w, err := k.podFor(ref)
	if err != nil {
		return err
	}
	c := w.find(ref.Container)
	if c == nil {
		return stream.BadRequest(fmt.Sprintf("container %q in pod %q is not available", ref.Container, ref.Pod))
	}
	j, err := c.journal(ref.Pod, o.Previous)
	if err != nil {
		return err
	}
	return copyLog(ctx, j, o, out)
}

// journal is the log to show: the running instance's, else the last one's. The errors are the kubelet's.
func (c *container) journal(pod string, previous bool) (*journal, error) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	name, s := c.name, &c.status
	switch {
	case previous && s.LastTerminationState.Terminated != nil && s.State.Waiting != nil && c.log != nil:
		return c.log, nil // the next instance has not begun
	case previous && s.LastTerminationState.Terminated != nil && c.old != nil:
		return c.old, nil
	case previous:
		return nil, stream.BadRequest(fmt.Sprintf("previous terminated container %q in pod %q not found", name, pod))
	case c.log != nil:
		return c.log, nil
	case s.State.Terminated != nil, s.LastTerminationState.Terminated != nil:
		return nil, stream.BadRequest(fmt.Sprintf("container %q in pod %q is terminated", name, pod))
	}
	why := s.State.Waiting.Reason
	switch why {
	case "ErrImagePull":
		why = "image can't be pulled"
	case "ImagePullBackOff":
		why = "trying and failing to pull image"
	}
	return nil, stream.BadRequest(fmt.Sprintf("container %q in pod %q is waiting to start: %v", name, pod, why))
}

// Exec implements stream.Backend. What is run this way ends with the container.
func (k *Kubelet) Exec(ctx context.Context, ref stream.Ref, cmd []string, s stream.Streams) (int, error) {
	p, err := k.processFor(ref)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, byHand{}, true))
	defer cancel(nil)
	defer context.AfterFunc(p.ctx, func() { cancel(shell.Kill) })()
	return shell.Run(ctx, p.another(cmd, s.Stdin, s.Stdout, s.Stderr, s.TTY)), nil
}

// Attach implements stream.Backend.
func (k *Kubelet) Attach(ctx context.Context, ref stream.Ref, s stream.Streams) error {
	p, err := k.processFor(ref)
	if err != nil {
		return err
	}
	v := p.log.attach()
	if v == nil {
		return stream.BadRequest(fmt.Sprintf("too many clients are attached to container %q", ref.Container))
	}
	defer p.log.detach(v)
	if s.Stdin != nil && p.typing != nil {
		go func() {
			_, _ = io.Copy(p.typing, s.Stdin)
			if p.spec.StdinOnce {
				p.typing.Close()
			}
		}()
	}
	for {
		select {
		case chunk, open := <-v:
			if !open {
				return nil
			}
			out := s.Stdout
			if chunk.from == stderr {
				out = s.Stderr
			}
			if _, err := out.Write(chunk.data); err != nil {
				return fmt.Errorf("attach to %s: %w", ref.Pod, err)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// PortForward implements stream.Backend.
func (k *Kubelet) PortForward(ctx context.Context, ref stream.Ref, port int32, conn io.ReadWriteCloser) error {
	w, err := k.podFor(ref)
	if err != nil {
		return err
	}
	inside := w.inside()
	if inside == nil {
		return stream.BadRequest(fmt.Sprintf("pod %q is not running", ref.Pod))
	}
	to, err := inside.Dial(ctx, int(port))
	if err != nil {
		return fmt.Errorf("failed to connect to localhost:%d inside namespace %q: %w", port, w.uid, err)
	}
	defer to.Close()
	done := make(chan struct{}, 2)
	go func() { _, _ = io.Copy(to, conn); done <- struct{}{} }()
	go func() { _, _ = io.Copy(conn, to); done <- struct{}{} }()
	select {
	case <-done:
	case <-ctx.Done():
	}
	return nil
}

// podFor finds the pod that a request is about.
func (k *Kubelet) podFor(ref stream.Ref) (*worker, error) {
	k.mu.Lock()
	w := k.byName[types.NamespacedName{Namespace: ref.Namespace, Name: ref.Pod}]
	k.mu.Unlock()
	if w == nil || ref.UID != "" && ref.UID != w.uid {
		return nil, stream.NotFound(fmt.Sprintf("pod %q not found", ref.Namespace+"/"+ref.Pod))
	}
	return w, nil
}

// processFor finds the running process that a request is about.
func (k *Kubelet) processFor(ref stream.Ref) (*process, error) {
	w, err := k.podFor(ref)
	if err != nil {
		return nil, err
	}
	c := w.find(ref.Container)
	if c == nil {
		return nil, stream.NotFound(fmt.Sprintf("container not found (%q)", ref.Container))
	}
	p := c.process()
	if p == nil {
		return nil, stream.NotFound(fmt.Sprintf("container not found (%q)", ref.Container))
	}
	return p, nil
}
