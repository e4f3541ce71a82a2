package cli

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-dev/berth/kube/answer"
)

// A shell that completes waits for completeFor at most, and lists mostNames of each kind.
const (
	completeFor = 3 * time.Second
	mostNames   = 500
)

// completeWorkloads completes the one argument of a command that asks about a workload. list is told the namespace.
func (r *reading) completeWorkloads(space *string, list func(ctx context.Context, namespace string) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		r.named = cmd.Flags().Changed("name") // nothing ran before that would have set it
		ctx, cancel := context.WithTimeout(cmd.Context(), completeFor)
		defer cancel()
		namespace := *space
		if namespace == "" {
			namespace = r.namespace()
		}
		return matching(list(ctx, namespace), begun), cobra.ShellCompDirectiveNoFileComp
	}
}

// matching are the titles, such as job/train, that begin as the word does; or, where only names do, those names.
func matching(titles []string, begun string) (out []string) {
	for _, title := range titles {
		_, name, _ := strings.Cut(title, "/")
		switch {
		case strings.HasPrefix(title, begun):
			out = append(out, title)
		case strings.HasPrefix(name, begun):
			out = append(out, name)
		}
	}
	return out
}

// scheduled are the workloads that Berth schedules; none where they cannot be read.
func (r *reading) scheduled(ctx context.Context, namespace string) (titles []string) {
	a, err := r.asker()
	if err != nil {
		return nil
	}
	var list answer.WorkloadList
	if a.get(ctx, &list, url.Values{}, "namespaces", namespace, "workloads") != nil {
		return nil
	}
	for i := range list.Items {
		titles = append(titles, list.Items[i].Reference().Title())
	}
	return titles
}

// askable is the work of a namespace, whoever schedules it: what people make, and the pods.
func (r *reading) askable(ctx context.Context, namespace string) (titles []string) {
	if r.from != "" {
		return r.scheduled(ctx, namespace)
	}
	cfg, err := r.config()
	if err != nil {
		return nil
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil
	}
	some := metav1.ListOptions{Limit: mostNames}
	add := func(kind string, o metav1.Object) { titles = append(titles, kind+"/"+o.GetName()) }
	// each may be forbidden; the others are listed all the same
	if l, err := client.BatchV1().Jobs(namespace).List(ctx, some); err == nil {
		for i := range l.Items {
			add("job", &l.Items[i])
		}
	}
	if l, err := client.AppsV1().Deployments(namespace).List(ctx, some); err == nil {
		for i := range l.Items {
			add("deployment", &l.Items[i])
		}
	}
	if l, err := client.AppsV1().StatefulSets(namespace).List(ctx, some); err == nil {
		for i := range l.Items {
			add("statefulset", &l.Items[i])
		}
	}
	if l, err := client.CoreV1().Pods(namespace).List(ctx, some); err == nil {
		for i := range l.Items {
			add("pod", &l.Items[i])
		}
	}
	return titles
}
