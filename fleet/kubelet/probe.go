package kubelet

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-dev/berth/fleet/shell"
)

// watch follows an instance's probes until it ends: start-up first, then readiness and liveness side
// by side. Delays and periods are simulated time, time-outs are not.
func (c *container) watch(p *process) {
	if c.w.k.clock.Sleep(p.ctx, p.settle) != nil || !c.comesUp(p) {
		return
	}
	ready := p.spec.ReadinessProbe == nil
	c.show(p, true, ready)
	if p.spec.LivenessProbe != nil {
		go func() {
			if c.until(p, "Liveness", p.spec.LivenessProbe, false) {
				c.restart(p, p.spec.LivenessProbe, fmt.Sprintf("Container %s failed liveness probe, will be restarted", p.spec.Name))
			}
		}()
	}
	for want := true; !ready; want = !want {
		if !c.until(p, "Readiness", p.spec.ReadinessProbe, want) {
			return
		}
		c.show(p, true, want)
	}
}

// comesUp waits for the start-up probe; a container that never comes up is restarted.
func (c *container) comesUp(p *process) bool {
	probe := p.spec.StartupProbe
	if probe == nil {
		return true
	}
	failures := 0
	if c.w.k.clock.Sleep(p.ctx, simulatedSeconds(probe.InitialDelaySeconds)) != nil {
		return false
	}
	for {
		if c.probe(p, "Startup", probe) {
			return true
		}
		if failures++; failures >= int(max(1, probe.FailureThreshold)) {
			c.restart(p, probe, fmt.Sprintf("Container %s failed startup probe, will be restarted", p.spec.Name))
			return false
		}
		if c.w.k.clock.Sleep(p.ctx, simulatedSeconds(max(1, probe.PeriodSeconds))) != nil {
			return false
		}
	}
}

// until probes until the result was the wanted one as often in a row as its threshold asks. It is false
// if the process ended first.
func (c *container) until(p *process, what string, probe *corev1.Probe, want bool) bool {
	threshold := max(1, probe.FailureThreshold)
	if want {
		threshold = max(1, probe.SuccessThreshold)
	}
	period := simulatedSeconds(max(1, probe.PeriodSeconds))
	wait := simulatedSeconds(probe.InitialDelaySeconds) - c.w.k.clock.Simulated(time.Since(p.startedAt.Time))
	for run := int32(0); run < threshold; {
		if c.w.k.clock.Sleep(p.ctx, wait) != nil {
			return false
		}
		run++
		if c.probe(p, what, probe) != want {
			run = 0
		}
		wait = period
	}
	return p.ctx.Err() == nil
}

func simulatedSeconds(n int32) time.Duration { return time.Duration(n) * time.Second }

// show puts the instance's state into the status, unless it is over.
func (c *container) show(p *process, started, ready bool) {
	c.w.change(func() {
		if c.running == p {
			c.status.Started, c.status.Ready = &started, ready
		}
	})
	c.w.poke()
}

// probe does one probe and records an event if it fails.
func (c *container) probe(p *process, what string, probe *corev1.Probe) bool {
	ctx, cancel := context.WithTimeout(p.ctx, simulatedSeconds(max(1, probe.TimeoutSeconds)))
	defer cancel()
	ctx = context.WithValue(ctx, byHand{}, true)
	output, ok := p.try(ctx, &probe.ProbeHandler)
	if !ok && p.ctx.Err() == nil {
		c.event(corev1.EventTypeWarning, "Unhealthy", "%s probe failed: %s", what, output)
	}
	return ok
}

func (p *process) try(ctx context.Context, h *corev1.ProbeHandler) (output string, ok bool) {
	switch {
	case h.Exec != nil:
		code, output := p.exec(ctx, h.Exec.Command)
		return output, code == 0
	case h.HTTPGet != nil:
		return p.get(ctx, h.HTTPGet)
	case h.TCPSocket != nil:
		return p.dial(ctx, h.TCPSocket.Port)
	case h.GRPC != nil:
		return p.dial(ctx, intstr.FromInt32(h.GRPC.Port))
	}
	return "missing probe handler", false
}

// exec runs a command in the container and gives its exit code and what it printed.
func (p *process) exec(ctx context.Context, argv []string) (code int, output string) {
	out := new(beginning)
	code = shell.Run(ctx, p.another(argv, nil, out, out, false))
	return code, string(out.text)
}

// beginning keeps the first bytes of what is written: as much of a probe's output as a kubelet reads.
type beginning struct{ text []byte }

const maxProbeOutput = 10 << 10

func (b *beginning) Write(p []byte) (int, error) {
	b.text = append(b.text, p[:min(len(p), maxProbeOutput-len(b.text))]...)
	return len(p), nil
}

// get does an HTTP GET to the pod's own network and fails for what is not below 400.
func (p *process) get(ctx context.Context, a *corev1.HTTPGetAction) (output string, ok bool) {
	port, err := p.port(a.Port)
	if err != nil {
		return err.Error(), false
	}
	path, query, _ := strings.Cut(a.Path, "?")
	u := url.URL{Scheme: "http", Host: net.JoinHostPort(p.podIP, strconv.Itoa(port)), Path: path, RawQuery: query}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err.Error(), false
	}
	for _, h := range a.HTTPHeaders {
		req.Header.Add(h.Name, h.Value)
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return p.connect(ctx, port) }}
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return err.Error(), false
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 10<<10))
	if res.StatusCode >= 400 {
		return fmt.Sprintf("HTTP probe failed with statuscode: %d", res.StatusCode), false
	}
	return "", true
}

func (p *process) dial(ctx context.Context, to intstr.IntOrString) (output string, ok bool) {
	port, err := p.port(to)
	if err != nil {
		return err.Error(), false
	}
	conn, err := p.connect(ctx, port)
	if err != nil {
		return err.Error(), false
	}
	conn.Close()
	return "", true
}

// connect opens a connection inside the pod; the error reads as from a real network.
func (p *process) connect(ctx context.Context, port int) (net.Conn, error) {
	conn, err := p.net.Dial(ctx, port)
	if err != nil {
		return nil, fmt.Errorf("dial tcp %s: connect: connection refused", net.JoinHostPort(p.podIP, strconv.Itoa(port)))
	}
	return conn, nil
}

// port resolves a port by number or by the name the container gave it.
func (p *process) port(v intstr.IntOrString) (int, error) {
	if v.Type == intstr.Int {
		return v.IntValue(), nil
	}
	for _, port := range p.spec.Ports {
		if port.Name == v.StrVal {
			return int(port.ContainerPort), nil
		}
	}
	if n, err := strconv.Atoi(v.StrVal); err == nil {
		return n, nil
	}
	return 0, fmt.Errorf("couldn't find port: %q in container %q", v.StrVal, p.spec.Name)
}
