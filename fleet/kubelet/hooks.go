package kubelet

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// postStart runs the hook right after the process started; the pod waits for it. A container whose hook
// fails is killed.
func (c *container) postStart(p *process) {
	if p.spec.Lifecycle == nil || p.spec.Lifecycle.PostStart == nil {
		return
	}
	if p.hook(p.ctx, p.spec.Lifecycle.PostStart) || p.ctx.Err() != nil {
		return
	}
	c.event(corev1.EventTypeWarning, "FailedPostStartHook", "PostStartHook failed")
	c.restart(p, nil, "FailedPostStartHook")
}

// preStop runs the hook before SIGTERM, once and for as long as the grace period lasts. It says whether
// it did.
func (c *container) preStop(grace context.Context, p *process) bool {
	if p.spec.Lifecycle == nil || p.spec.Lifecycle.PreStop == nil || grace.Err() != nil || p.hooked.Swap(true) {
		return false
	}
	ctx, cancel := context.WithCancel(grace)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	if !p.hook(ctx, p.spec.Lifecycle.PreStop) && grace.Err() == nil && p.ctx.Err() == nil {
		c.event(corev1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed")
	}
	return true
}

// hook runs one handler and says whether it went well.
func (p *process) hook(ctx context.Context, h *corev1.LifecycleHandler) bool {
	ctx = context.WithValue(ctx, byHand{}, true)
	switch {
	case h.Exec != nil:
		code, _ := p.exec(ctx, h.Exec.Command)
		return code == 0
	case h.HTTPGet != nil:
		_, ok := p.get(ctx, h.HTTPGet)
		return ok
	case h.Sleep != nil:
		sleep(ctx, time.Duration(h.Sleep.Seconds)*time.Second)
		return ctx.Err() == nil
	}
	return true
}
