package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-dev/berth/controlplane/home"
)

// connection says which cluster a command talks to: the one kubectl would talk to, or one of this machine by name.
type connection struct {
	name, kubeconfig, context string

	named   bool // --name was written
	program string
	small   bool     // this program has no kubectl in it
	found   *cluster // once chosen
}

// cluster is the one that was chosen.
type cluster struct {
	config    *rest.Config
	namespace string   // the current one
	name      string   // as its kubeconfig calls it; "" inside a cluster
	kubectl   string   // the words in front of a printed command, so that it acts on this cluster wherever it is pasted
	portable  string   // the same for another machine, which has none of this one's files
	title     string   // for people
	decisions string   // folder of its decision log; "": it is not of this machine, or the caller is not its administrator
	partly    bool     // the caller may not see all of it, so the log is closed to them
	others    []string // clusters that could have been meant instead
}

func (c *connection) flags(cmd *cobra.Command) {
	nameFlag(cmd, &c.name, "", "cluster on this machine (default: the one that kubectl would talk to)")
	cmd.Flags().StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster (default: as for kubectl)")
	cmd.Flags().StringVar(&c.context, "context", "", "context in the kubeconfig (default: the current one)")
	cmd.MarkFlagsMutuallyExclusive("name", "kubeconfig")
	cmd.MarkFlagsMutuallyExclusive("name", "context")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		c.named, c.program = cmd.Flags().Changed("name"), programOf(cmd)
		c.small = !hasKubectl(cmd.Root())
		if !c.named {
			return nil
		}
		return home.CheckName(c.name)
	}
}

// programAnnotation is where the root command keeps how the user called this program.
const programAnnotation = "program"

func programOf(cmd *cobra.Command) string {
	if p := cmd.Root().Annotations[programAnnotation]; p != "" {
		return p
	}
	return "berth"
}

func hasKubectl(root *cobra.Command) bool {
	return slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == "kubectl" })
}

// explicit says whether the user chose a cluster.
func (c *connection) explicit() bool { return c.named || c.kubeconfig != "" || c.context != "" }

// config is how to reach the cluster.
func (c *connection) config() (*rest.Config, error) {
	got, err := c.choose()
	if err != nil {
		return nil, err
	}
	return got.config, nil
}

// choose finds the cluster, once: the one that was named; else the one that kubectl would talk to (--kubeconfig,
// $KUBECONFIG, the current context); else, where kubectl knows none, the one that runs on this machine.
func (c *connection) choose() (*cluster, error) {
	if c.found != nil {
		return c.found, nil
	}
	got, err := c.find()
	if err == nil {
		c.found = got
	}
	return got, err
}

func (c *connection) find() (*cluster, error) {
	if c.named {
		dir, err := running(c.name)
		if err != nil {
			return nil, err
		}
		return c.embedded(dir, c.name)
	}
	here, err := runningHere()
	if err != nil {
		return nil, err
	}
	got, err := c.foreign(here)
	switch {
	case err == nil:
		return got, nil
	case c.explicit() || !errors.Is(err, errNoKubeconfig):
		return nil, err
	}
	return c.only(here)
}

// only is the one cluster of this machine, or the one with the usual name, where kubectl knows of none.
func (c *connection) only(here []home.Dir) (*cluster, error) {
	chosen := -1
	for i, d := range here {
		if len(here) == 1 || filepath.Base(d.Path) == defaultName {
			chosen = i
		}
	}
	if chosen < 0 && len(here) > 0 {
		return nil, fmt.Errorf("which cluster? give --name with one of: %s; or --kubeconfig FILE", strings.Join(names(here), ", "))
	}
	if chosen < 0 {
		_, err := running(defaultName)
		return nil, fmt.Errorf("%w; or give --kubeconfig for another cluster", err)
	}
	got, err := c.embedded(here[chosen], filepath.Base(here[chosen].Path))
	if err != nil {
		return nil, err
	}
	if os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" {
		got.others = append(got.others, "$KUBECONFIG, which names no cluster")
	}
	got.others = append(got.others, besides(names(here), got.name)...)
	return got, nil
}

// embedded is a cluster of this machine.
func (c *connection) embedded(dir home.Dir, name string) (*cluster, error) {
	cfg, err := clientConfig(dir)
	if err != nil {
		return nil, err
	}
	kubectl := c.program + " kubectl --name " + name
	if c.small {
		kubectl = "kubectl --kubeconfig " + shellWord(dir.Kubeconfig())
	}
	return &cluster{
		config: cfg, namespace: namespaceIn(&clientcmd.ClientConfigLoadingRules{ExplicitPath: dir.Kubeconfig()}, ""),
		name: name, kubectl: kubectl, portable: "berth kubectl --name " + name, title: fmt.Sprintf("cluster %q of this machine", name),
		decisions: dir.Decisions(),
	}, nil
}

// errNoKubeconfig says that kubectl would not know which cluster to talk to.
var errNoKubeconfig = errors.New("the kubeconfig names no cluster: give --kubeconfig FILE, or --context")

// foreign is the cluster that kubectl would talk to with the same flags. It may be one of this machine all the same.
func (c *connection) foreign(here []home.Dir) (*cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	client := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: c.context})
	cfg, err := client.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errNoKubeconfig
	}
	if err != nil && c.kubeconfig != "" {
		return nil, fmt.Errorf("--kubeconfig %s: %w", c.kubeconfig, err)
	}
	if err != nil {
		return nil, err
	}
	raw, err := client.RawConfig()
	if err != nil {
		return nil, err
	}
	context := c.context
	if context == "" {
		context = raw.CurrentContext
	}
	got := &cluster{config: cfg, namespace: namespaceIn(rules, c.context), name: context, kubectl: "kubectl", portable: "kubectl"}
	if context == "" { // inside a cluster, where kubectl too needs no more
		got.title = "the cluster that this process runs in"
		return got, nil
	}
	got.kubectl += kubeconfigFlag(rules) + " --context " + shellWord(context)
	got.portable += " --context " + shellWord(context)
	got.title = fmt.Sprintf("context %q at %s", context, cfg.Host)
	if ours, err := c.sameHere(here, cfg); err == nil {
		ours.namespace = got.namespace
		got = ours
	}
	if !c.explicit() {
		for other := range raw.Contexts {
			if other != context {
				got.others = append(got.others, fmt.Sprintf("%d more in the kubeconfig", len(raw.Contexts)-1))
				break
			}
		}
		got.others = append(got.others, besides(names(here), got.name)...)
	}
	return got, nil
}

// kubeconfigFlag names the kubeconfig in a printed command unless kubectl finds it in every shell: in its usual place.
// Several files in $KUBECONFIG cannot be named by the flag.
func kubeconfigFlag(rules *clientcmd.ClientConfigLoadingRules) string {
	file := rules.ExplicitPath
	if list := filepath.SplitList(os.Getenv(clientcmd.RecommendedConfigPathEnvVar)); file == "" && len(list) == 1 {
		file = list[0]
	}
	if file == "" {
		return ""
	}
	if whole, err := filepath.Abs(file); err == nil {
		file = whole
	}
	return " --kubeconfig " + shellWord(file)
}

func namespaceIn(rules clientcmd.ClientConfigLoader, context string) string {
	name, _, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: context}).Namespace()
	if err != nil || name == "" {
		return "default"
	}
	return name
}

// runningHere are the clusters that run on this machine.
func runningHere() (out []home.Dir, err error) {
	root, err := home.Root()
	if err != nil {
		return nil, err
	}
	all, err := home.List(root)
	if err != nil {
		return nil, err
	}
	for _, d := range all {
		if d, err := running(filepath.Base(d.Path)); err == nil {
			out = append(out, d)
		}
	}
	return out, nil
}

// sameHere finds the cluster of this machine that the connection leads to, as the same person: with the same address,
// authority and credentials. Commands for it run with the built-in kubectl, which is its administrator.
func (c *connection) sameHere(here []home.Dir, cfg *rest.Config) (*cluster, error) {
	for _, d := range here {
		ours, err := c.embedded(d, filepath.Base(d.Path))
		if err == nil && ours.config.Host == cfg.Host && ours.config.BearerToken == cfg.BearerToken && bytes.Equal(authority(ours.config), authority(cfg)) {
			return ours, nil
		}
	}
	return nil, errors.New("none of this machine")
}

// authority is the certificate that the server is held to; nil if it cannot be read.
func authority(cfg *rest.Config) []byte {
	if len(cfg.CAData) > 0 || cfg.CAFile == "" {
		return cfg.CAData
	}
	data, _ := os.ReadFile(cfg.CAFile) // an unreadable one is like no other
	return data
}

func names(dirs []home.Dir) []string {
	out := make([]string, len(dirs))
	for i, d := range dirs {
		out[i] = filepath.Base(d.Path)
	}
	return out
}

// besides words the clusters of this machine other than the chosen one.
func besides(names []string, chosen string) (out []string) {
	for _, n := range names {
		if n != chosen {
			out = append(out, "--name "+n)
		}
	}
	return out
}

// asked is a line that says which cluster was asked, where another could have been meant; "" where none could.
func (c *connection) asked() string {
	got, err := c.choose()
	if err != nil || c.explicit() || len(got.others) == 0 {
		return ""
	}
	return fmt.Sprintf("Asked: %s (not: %s)\n", got.title, strings.Join(got.others, ", "))
}
