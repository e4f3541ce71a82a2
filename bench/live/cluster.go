package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-dev/berth/kube/scheduler"
)

// cluster is an API server in a process of its own, for one measurement.
type cluster struct {
	options
	label   string // of the measurement, for files
	dir     string
	server  *process
	client  kubernetes.Interface
	admin   *rest.Config
	watcher *watcher
}

// startCluster returns when the API server is ready and has a namespace for the pods.
func startCluster(ctx context.Context, o options, label string) (*cluster, error) {
	dir, err := os.MkdirTemp("", "berth-live-")
	if err != nil {
		return nil, err
	}
	c := &cluster{options: o, label: label, dir: dir}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

func (c *cluster) start(ctx context.Context) (err error) {
	if c.server, err = c.part(ctx, "serve", c.dir); err != nil {
		return err
	}
	if err := c.server.awaitReady(ctx); err != nil {
		return err
	}
	file := kubeconfigOf(c.dir, asAdmin)
	if c.admin, err = clientcmd.BuildConfigFromFlags("", file); err != nil {
		return err
	}
	if c.client, err = connect(file); err != nil {
		return err
	}
	if err := scheduler.Install(ctx, c.admin, slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	return c.openNamespace(ctx)
}

// openNamespace does the controllers' part: a namespace in which pods can be made.
func (c *cluster) openNamespace(ctx context.Context) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := c.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	_, err := c.client.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{})
	return err
}

func (c *cluster) stop() error {
	var err error
	if c.watcher != nil {
		c.watcher.stop()
	}
	if c.server != nil {
		err = c.server.stop()
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}

// part starts this program again as one of its parts.
func (c *cluster) part(ctx context.Context, name string, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var env []string
	if c.profile != "" {
		file := fmt.Sprintf("%s-%s-%s.prof", c.label, name, time.Now().Format("150405.000"))
		env = append(env, profileVariable+"="+filepath.Join(c.profile, file))
	}
	return launch(ctx, c.dir, name, self, append([]string{name}, args...), env)
}

// connect makes a client without limits of its own that speaks protobuf, over a socket of its own: client-go gives all
// clients of one configuration the same one, and a server works on the requests of a socket one frame at a time.
func connect(kubeconfig string) (kubernetes.Interface, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	cfg.QPS, cfg.Burst = -1, -1
	cfg.Dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	cfg.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return kubernetes.NewForConfig(cfg)
}
