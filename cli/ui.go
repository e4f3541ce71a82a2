package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/berth-dev/berth/web"
)

type uiOptions struct {
	reading
	port    int
	metrics []string
	streams Streams
}

// Ports for everybody (RFC 6335, section 6), of which a page gets one that nobody could foresee.
const (
	firstPort = 49152
	lastPort  = 65535
)

func newCmdUI(s Streams) *cobra.Command {
	o := &uiOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Open a page on the fleet, the queues, why work waits and what it costs",

		SuggestFor: []string{"web", "dashboard", "page", "open", "view"},
		Long: `Serve a page on this machine and print a link to it. The page shows every GPU and what it does, the queues and
the line, why work waits and what would start it, and where paid GPUs are lost. It is what the other
commands answer, kept up to date.

It reads with the rights of your kubeconfig and changes nothing. It listens on loopback alone; the link
works once, for the browser that opens it first. Without --metrics it is not known which GPUs are busy.
docs/page.md explains the views.`,
		Example: `  berth ui
  berth ui --context prod
  berth ui --port 8080 --metrics http://10.0.0.7:9400/metrics`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.port < 0 || o.port > 65535 {
				return fmt.Errorf("--port %d: a port is a number from 1 to 65535", o.port)
			}
			return uiRun(cmd.Context(), o)
		},
	}
	o.connection.flags(cmd)
	f := cmd.Flags()
	f.IntVar(&o.port, "port", 0, "port on loopback (default: another one each time, since a browser keeps what a port was trusted with)")
	f.StringArrayVar(&o.metrics, "metrics", nil, "`FILE` or URL with metrics of GPUs in Prometheus' text format, for the ledger; may be repeated")
	return cmd
}

func uiRun(ctx context.Context, o *uiOptions) error {
	for _, m := range o.metrics {
		if m == "-" {
			return errors.New("--metrics -: the page reads metrics again and again: give a file or a URL")
		}
	}
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // the page says what cannot be read
	at, err := o.choose()
	if err != nil {
		return exitError{code: exitUnknown, err: err}
	}
	l, err := o.listen()
	if err != nil {
		return failed(err)
	}
	s, err := web.New(o.page(at, l))
	if err != nil {
		return exitError{code: exitUnknown, err: err}
	}
	fmt.Fprintf(o.streams.Out, "%sOpen  %s\n\nThe link works once. Ctrl-C stops the page.\n", o.asked(), s.Link())
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	return failed(s.Run(ctx))
}

// page is the page of a cluster.
func (o *uiOptions) page(at *cluster, l net.Listener) web.Options {
	return web.Options{Config: at.config, Namespace: at.namespace, Listener: l, Questions: &uiQuestions{o: o}, Cluster: at.title, Version: Version}
}

// servePage serves the page of the cluster of this process until the context ends, and returns the link. Nothing is read before somebody
// opens it.
func (s *session) servePage(ctx context.Context) (link string, err error) {
	o := &uiOptions{streams: quiet}
	o.name, o.named, o.program = s.name, true, s.deps.Program
	at, err := o.choose()
	if err != nil {
		return "", err
	}
	l, err := o.listen()
	if err != nil {
		return "", err
	}
	options := o.page(at, l)
	options.Waits, options.Log = true, slog.New(slog.NewTextHandler(s.log, nil))
	page, err := web.New(options)
	if err != nil {
		l.Close()
		return "", err
	}
	go func() {
		if err := page.Run(ctx); err != nil {
			s.report.say("the page ended: " + err.Error())
		}
	}()
	return page.Link(), nil
}

// listen opens the port: the one asked for, else one that is drawn. Whoever served a port before, or serves it next, is the same origin to a
// browser, and can leave there what reads the page (ADR 242).
func (o *uiOptions) listen() (net.Listener, error) {
	if o.port != 0 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", o.port))
		if err != nil {
			return nil, fmt.Errorf("port %d is taken: choose another with --port", o.port)
		}
		return l, nil
	}
	for range 100 {
		port := firstPort + rand.N(lastPort-firstPort+1) // of the operating system's randomness
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return l, nil
		}
	}
	return net.Listen("tcp", "127.0.0.1:0")
}
