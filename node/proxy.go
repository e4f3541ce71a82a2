package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// forwarder stands in for kube-proxy: it listens on the services' addresses, which the namespace's loopback interface has, and
// hands each connection on to a ready endpoint. The service of the API server itself has no endpoints here; its connections go
// to where the API server listens.
type forwarder struct {
	client kubernetes.Interface
	api    string // host:port

	mu        sync.Mutex
	endpoints map[string][]string // by address:port of the service
	listening map[string]net.Listener
}

// run looks at services and endpoints until ctx ends.
func (f *forwarder) run(ctx context.Context) {
	f.endpoints, f.listening = map[string][]string{}, map[string]net.Listener{}
	for ctx.Err() == nil {
		if err := f.look(ctx); err != nil && ctx.Err() == nil {
			fmt.Println("services:", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(300 * time.Millisecond):
		}
	}
}

func (f *forwarder) look(ctx context.Context) error {
	services, err := f.client.CoreV1().Services("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	slices, err := f.client.DiscoveryV1().EndpointSlices("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	now := map[string][]string{}
	for i := range services.Items {
		s := &services.Items[i]
		if net.ParseIP(s.Spec.ClusterIP) == nil {
			continue
		}
		for _, p := range s.Spec.Ports {
			at := net.JoinHostPort(s.Spec.ClusterIP, fmt.Sprint(p.Port))
			now[at] = f.backends(s, p, slices.Items)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.endpoints = now
	for at := range now {
		if f.listening[at] != nil {
			continue
		}
		l, err := net.Listen("tcp", at)
		if err != nil {
			return err
		}
		f.listening[at] = l
		go f.serve(at, l)
	}
	return nil
}

func (f *forwarder) backends(s *corev1.Service, p corev1.ServicePort, slices []discoveryv1.EndpointSlice) []string {
	if s.Namespace == metav1.NamespaceDefault && s.Name == "kubernetes" {
		return []string{f.api}
	}
	var out []string
	for i := range slices {
		e := &slices[i]
		if e.Namespace != s.Namespace || e.Labels[discoveryv1.LabelServiceName] != s.Name {
			continue
		}
		for _, port := range e.Ports {
			if port.Port == nil || port.Name != nil && *port.Name != p.Name {
				continue
			}
			for _, endpoint := range e.Endpoints {
				if r := endpoint.Conditions.Ready; r == nil || *r {
					out = append(out, net.JoinHostPort(endpoint.Addresses[0], fmt.Sprint(*port.Port)))
				}
			}
		}
	}
	return out
}

func (f *forwarder) serve(at string, l net.Listener) {
	for {
		from, err := l.Accept()
		if err != nil {
			return
		}
		f.mu.Lock()
		backends := f.endpoints[at]
		f.mu.Unlock()
		go forward(from, backends)
	}
}

func forward(from net.Conn, backends []string) {
	defer from.Close()
	for _, b := range backends {
		to, err := net.DialTimeout("tcp", b, time.Second)
		if err != nil {
			continue
		}
		defer to.Close()
		go func() {
			io.Copy(to, from)
			to.Close()
		}()
		io.Copy(from, to)
		return
	}
}

func hostPort(server string) string { return strings.TrimPrefix(server, "https://") }
