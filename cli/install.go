package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/kube/dialect/all"
	"github.com/berth-dev/berth/kube/install"
)

type installOptions struct {
	connection
	image, cpu, memory string
	file               string // the scheduler's configuration
	dialects           []string
	replicas           int32
	ipv6               bool
	dry, preflight     bool
	manifests          bool
	streams            Streams
}

func newCmdInstall(s Streams) *cobra.Command {
	o := &installOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install Berth's scheduler into a cluster",
		Long: `Install Berth's scheduler into a cluster, or bring it up to date: the kind BerthQueue, roles, admission
policies, and a Deployment of two of which one leads. Nothing is written before the cluster was found
fit: what --preflight alone prints.

It is the same as ` + "`kubectl apply -f deploy/manifests`" + `, and can be done again at any time. Workloads
and queues are not touched.`,
		Example: `  berth install --context prod --preflight
  berth install --context prod --image registry.example/berth:v1
  berth install --context prod --dialect kueue
  berth install --manifests > berth.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return installRun(cmd.Context(), o) },
	}
	o.connection.flags(cmd)
	d, f := install.Defaults(Version), cmd.Flags()
	f.StringVar(&o.image, "image", d.Image, "image of the scheduler, made by make image")
	f.Int32Var(&o.replicas, "replicas", d.Replicas, "how many run; one of them leads")
	f.StringVar(&o.cpu, "cpu", d.CPU.String(), "processor time that each requests")
	f.StringVar(&o.memory, "memory", d.Memory.String(), "memory that each requests")
	f.StringVar(&o.file, "config", "", "the scheduler's configuration file (default: as the cluster has it)")
	f.StringSliceVar(&o.dialects, "dialect", nil, "also install the admission policies that do what the webhooks of another scheduler do: "+strings.Join(all.Names(), ", "))
	f.BoolVar(&o.ipv6, "ipv6", false, "the cluster's pods have IPv6 addresses first")
	f.BoolVar(&o.preflight, "preflight", false, "look whether the cluster can take it, and write nothing")
	f.BoolVar(&o.dry, "dry-run", false, "have the API server check every object, and write nothing")
	f.BoolVar(&o.manifests, "manifests", false, "print the objects and ask no cluster")
	cmd.MarkFlagsMutuallyExclusive("preflight", "dry-run", "manifests")
	return cmd
}

func (o *installOptions) objects() ([]install.Object, error) {
	v := install.Defaults(Version)
	v.Image, v.Replicas = o.image, o.replicas
	for _, name := range o.dialects {
		if all.Find(name) == nil {
			return nil, fmt.Errorf("--dialect %q: choose %s", name, strings.Join(all.Names(), ", "))
		}
	}
	v.Dialects = o.dialects
	if o.ipv6 {
		v.Family = corev1.IPv6Protocol
	}
	switch {
	case o.image == "" || strings.ContainsAny(o.image, " \t\n"):
		return nil, fmt.Errorf("--image %q: give an image, such as registry.example/berth:v1", o.image)
	case o.replicas < 0 || o.replicas > 10:
		return nil, fmt.Errorf("--replicas %d: give a number from 0 to 10", o.replicas)
	}
	var err error
	if v.CPU, err = resource.ParseQuantity(o.cpu); err != nil || v.CPU.Sign() < 0 {
		return nil, fmt.Errorf("--cpu %q: give an amount, such as 500m", o.cpu)
	}
	if v.Memory, err = resource.ParseQuantity(o.memory); err != nil || v.Memory.Sign() < 0 {
		return nil, fmt.Errorf("--memory %q: give an amount, such as 512Mi", o.memory)
	}
	if o.file != "" {
		text, err := o.readConfig()
		if err != nil {
			return nil, err
		}
		v.Config = string(text)
	}
	return install.Objects(v)
}

// readConfig reads the configuration file and refuses what the scheduler would refuse.
func (o *installOptions) readConfig() ([]byte, error) {
	text, c, err := readConfig(o.file)
	if err != nil {
		return nil, err
	}
	var as schedulerOptions
	if err := c.fill(newSchedulerFlags(&as).Flags()); err != nil {
		return nil, fmt.Errorf("--config %s: %w", o.file, err)
	}
	if _, err := as.options(); err != nil {
		return nil, fmt.Errorf("--config %s: %w", o.file, err)
	}
	return text, nil
}

func installRun(ctx context.Context, o *installOptions) error {
	list, err := o.objects()
	if err != nil {
		return err
	}
	if o.manifests {
		all, optional := install.Manifests(list)
		_, err := o.streams.Out.Write(append(all, optional...))
		return failed(err)
	}
	client, err := o.administer()
	if err != nil {
		return err
	}
	findings, err := install.Preflight(ctx, client, list)
	if err != nil {
		return exitError{code: exitUnknown, err: err}
	}
	bad := false
	for _, f := range findings {
		if bad = bad || f.Level == install.Fail; f.Level != install.OK || o.preflight {
			fmt.Fprintf(o.streams.Out, "%-4s  %-10s  %s\n", f.Level, f.What, strings.Join(strings.Fields(f.Text), " ")) // refusals of roles list their rules
		}
	}
	switch {
	case bad:
		return failed(errors.New("the cluster cannot take Berth as it is; nothing was written"))
	case o.preflight:
		return nil
	}
	return failed(install.Apply(ctx, client.Discovery().RESTClient(), list, o.dry, o.tell))
}

// tell prints what became of an object.
func (o *installOptions) tell(r install.Result) {
	did := r.Did
	if o.dry && (did == "applied" || did == "removed") {
		did = "would be " + did
	}
	if r.Why != "" {
		did += ": " + r.Why
	}
	fmt.Fprintf(o.streams.Out, "%s %s\n", r.Object, did)
}

// administer connects to the cluster that was named: like the scheduler itself, an installation goes nowhere by accident.
func (o *installOptions) administer() (kubernetes.Interface, error) {
	if !o.explicit() {
		return nil, errors.New("which cluster? give --kubeconfig FILE, --context NAME, or --name for one of this machine")
	}
	cfg, err := o.config()
	if err != nil {
		return nil, exitError{code: exitUnknown, err: err}
	}
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1 // one request after the other is slow enough
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, exitError{code: exitUnknown, err: err}
	}
	return client, nil
}

func newCmdUninstall(s Streams) *cobra.Command {
	o, purge := &installOptions{streams: s}, false
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove Berth's scheduler from a cluster, and leave workloads running",
		Long: `Remove Berth's scheduler from a cluster. Pods that run keep running; pods with schedulerName berth that have no
node wait until Berth is installed again. Queues stay, with what they have used, unless --purge is given.`,
		Example: `  berth uninstall --context prod --dry-run
  berth uninstall --context prod`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return uninstallRun(cmd.Context(), o, purge) },
	}
	o.connection.flags(cmd)
	cmd.Flags().BoolVar(&purge, "purge", false, "remove the queues too")
	cmd.Flags().BoolVar(&o.dry, "dry-run", false, "say what would be removed, and remove nothing")
	return cmd
}

func uninstallRun(ctx context.Context, o *installOptions, purge bool) error {
	client, err := o.administer()
	if err != nil {
		return err
	}
	v := install.Defaults(Version)
	v.Dialects = all.Names() // whichever were installed
	list, err := install.Objects(v)
	if err != nil {
		return failed(err)
	}
	api := client.Discovery().RESTClient()
	if purge {
		queues, err := install.Queues(ctx, api)
		if err != nil {
			return exitError{code: exitUnknown, err: err}
		}
		if len(queues) > 0 {
			fmt.Fprintf(o.streams.Out, "queues that go with their kind: %s\n", strings.Join(queues, ", "))
		}
	}
	return failed(install.Remove(ctx, api, list, purge, o.dry, o.tell))
}
