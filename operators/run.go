package main

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// The files that the parent hands down.
const (
	listenerFile = 3 // the listener of the webhooks: the parent keeps it, so that calls wait while this process is restarted
	parentFile   = 4 // ends when the parent does
)

type runOptions struct {
	operators             []operator
	kubeconfig, cert, key string
	secret                string // the first part of every webhook's path, known to the API server alone
}

// run runs the operators until ctx ends, or one of them does.
func run(ctx context.Context, o runOptions) error {
	if len(o.secret) < 16 {
		return fmt.Errorf("$%s is not set", secretName)
	}
	ctrl.SetLogger(klog.Background())
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1 // the API server is on the same machine
	certificate, err := tls.LoadX509KeyPair(o.cert, o.key)
	if err != nil {
		return err
	}
	listener, err := net.FileListener(os.NewFile(listenerFile, "listener"))
	if err != nil {
		return fmt.Errorf("file %d is not the listener of the webhooks: %w", listenerFile, err)
	}
	go func() {
		io.Copy(io.Discard, os.NewFile(parentFile, "parent"))
		os.Exit(1)
	}()
	all, ctx := errgroup.WithContext(ctx)
	mux := http.NewServeMux()
	var synced []func(context.Context) bool
	for _, op := range o.operators {
		m, err := op.manager(ctx, config, mux, "/"+o.secret+"/"+op.name)
		if err != nil {
			return fmt.Errorf("%s: %w", op.name, err)
		}
		synced = append(synced, m.GetCache().WaitForCacheSync)
		all.Go(func() error { return m.Start(ctx) })
	}
	mux.HandleFunc("/"+o.secret+"/ready", func(w http.ResponseWriter, r *http.Request) {
		for _, done := range synced {
			if !done(r.Context()) {
				http.Error(w, "not yet", http.StatusServiceUnavailable)
			}
		}
	})
	all.Go(func() error { return serve(ctx, listener, certificate, guarded(o.secret, mux)) })
	return all.Wait()
}

// manager runs the operator's controllers, with a cache and webhooks of its own: two projects serve theirs under one path.
func (o operator) manager(ctx context.Context, c *rest.Config, mux *http.ServeMux, prefix string) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), o.types(scheme)); err != nil {
		return nil, err
	}
	own := http.NewServeMux()
	yes := true
	m, err := ctrl.NewManager(c, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		WebhookServer: &hooks{Server: webhook.NewServer(webhook.Options{WebhookMux: own})},
		Controller:    config.Controller{SkipNameValidation: &yes}, // several projects have one called pod
	})
	if err != nil {
		return nil, err
	}
	mux.Handle(prefix+"/", http.StripPrefix(prefix, own))
	return m, o.setup(ctx, m)
}

// hooks is a webhook server of which only the register of paths is used: one listener serves those of all operators.
type hooks struct{ webhook.Server }

func (*hooks) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// serve answers the API server.
func serve(ctx context.Context, l net.Listener, certificate tls.Certificate, handler http.Handler) error {
	s := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute}
	defer context.AfterFunc(ctx, func() { s.Close() })()
	secure := tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"}})
	if err := s.Serve(secure); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// guarded lets those in who know the secret, which is the first part of the path, and refuses bodies above what an API server sends.
func guarded(secret string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if subtle.ConstantTimeCompare([]byte(first), []byte(secret)) != 1 {
			http.Error(w, "forbidden", http.StatusForbidden)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, 16<<20)
		next.ServeHTTP(w, r)
	})
}
