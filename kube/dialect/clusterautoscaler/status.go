package clusterautoscaler

import (
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Group is a node group of the cluster autoscaler, as its status tells.
type Group struct {
	Name                    string
	Ready, Registered       int64
	Unregistered            int64 // machines that may yet become nodes
	LongUnregistered        int64 // and those that should have long ago
	Target, Min, Max        int64
	ScaleUp                 string // NoActivity, InProgress, Backoff, ...
	ErrorCode, ErrorMessage string // of Backoff
	Nodes                   []*corev1.Node
}

const StatusName = "cluster-autoscaler-status"

// status is what the ConfigMap has from Kubernetes 1.30 on.
type status struct {
	NodeGroups []struct {
		Name   string `json:"name"`
		Health struct {
			NodeCounts struct {
				Registered struct {
					Total int64 `json:"total"`
					Ready int64 `json:"ready"`
				} `json:"registered"`
				LongUnregistered int64 `json:"longUnregistered"`
				Unregistered     int64 `json:"unregistered"`
			} `json:"nodeCounts"`
			CloudProviderTarget int64 `json:"cloudProviderTarget"`
			MinSize             int64 `json:"minSize"`
			MaxSize             int64 `json:"maxSize"`
		} `json:"health"`
		ScaleUp struct {
			Status      string `json:"status"`
			BackoffInfo struct {
				ErrorCode    string `json:"errorCode"`
				ErrorMessage string `json:"errorMessage"`
			} `json:"backoffInfo"`
		} `json:"scaleUp"`
	} `json:"nodeGroups"`
}

// ParseStatus reads the autoscaler's status: YAML, or the text that releases before wrote.
func ParseStatus(text string) []*Group {
	var s status
	if err := yaml.Unmarshal([]byte(text), &s); err != nil || len(s.NodeGroups) == 0 {
		return parseOldStatus(text)
	}
	var out []*Group
	for _, g := range s.NodeGroups {
		if g.Name == "" {
			continue
		}
		n := g.Health.NodeCounts
		out = append(out, &Group{
			Name: g.Name, Ready: n.Registered.Ready, Registered: n.Registered.Total, Unregistered: n.Unregistered, LongUnregistered: n.LongUnregistered,
			Target: g.Health.CloudProviderTarget, Min: g.Health.MinSize, Max: g.Health.MaxSize,
			ScaleUp: g.ScaleUp.Status, ErrorCode: g.ScaleUp.BackoffInfo.ErrorCode, ErrorMessage: g.ScaleUp.BackoffInfo.ErrorMessage,
		})
	}
	return out
}

var (
	statusLine   = regexp.MustCompile(`^\s*(Name|Health|ScaleUp):\s+(\S+)\s*(.*)$`)
	statusNumber = regexp.MustCompile(`(\w+)=(\d+)`)
)

// parseOldStatus reads lines like "Health: Healthy (ready=3 ... cloudProviderTarget=3 (minSize=1, maxSize=3))".
func parseOldStatus(text string) []*Group {
	var out []*Group
	for _, line := range strings.Split(text, "\n") {
		m := statusLine.FindStringSubmatch(line)
		switch {
		case m == nil:
		case m[1] == "Name":
			out = append(out, &Group{Name: m[2]})
		case len(out) == 0: // of the cluster as a whole
		case m[1] == "ScaleUp":
			out[len(out)-1].ScaleUp = m[2]
		default:
			g := out[len(out)-1]
			into := map[string]*int64{"ready": &g.Ready, "registered": &g.Registered, "longUnregistered": &g.LongUnregistered, "cloudProviderTarget": &g.Target, "minSize": &g.Min, "maxSize": &g.Max}
			for _, pair := range statusNumber.FindAllStringSubmatch(m[3], -1) {
				if at := into[pair[1]]; at != nil {
					*at, _ = strconv.ParseInt(pair[2], 10, 64)
				}
			}
		}
	}
	return out
}

// Short is the group's name without where it is kept.
func (g *Group) Short() string { return strings.TrimSuffix(path.Base(g.Name), "-grp") }

// Mentions says whether the word is a part of the group's name.
func (g *Group) Mentions(word string) bool {
	return word != "" && strings.Contains("-"+strings.ToLower(g.Short())+"-", "-"+strings.ToLower(word)+"-")
}

// Full says whether the group may not grow.
func (g *Group) Full() bool { return g.Max > 0 && g.Target >= g.Max }

// Health is what the autoscaler says of itself.
type Health struct {
	State   string    // Running, Initializing; "" where it does not say
	Cluster string    // Healthy, Unhealthy: it grows nothing while too many nodes are not ready
	At      time.Time // when it said so: it does every few seconds; zero where that is not known
}

var (
	oldHeader = regexp.MustCompile(`(?m)^Cluster-autoscaler status at (.+):\s*$`)
	oldHealth = regexp.MustCompile(`(?m)^Cluster-wide:\s+Health:\s+(\w+)`)
)

// ParseHealth reads it of both formats.
func ParseHealth(text string) Health {
	var s struct {
		Time  string `json:"time"`
		State string `json:"autoscalerStatus"`
		Wide  struct {
			Health struct {
				Status string `json:"status"`
			} `json:"health"`
		} `json:"clusterWide"`
	}
	_ = yaml.Unmarshal([]byte(text), &s)
	if m := oldHeader.FindStringSubmatch(text); m != nil {
		s.Time = m[1]
	}
	if m := oldHealth.FindStringSubmatch(text); m != nil {
		s.Wide.Health.Status = m[1]
	}
	out := Health{State: s.State, Cluster: s.Wide.Health.Status}
	for _, layout := range []string{"2006-01-02 15:04:05.999999999 -0700 MST", time.RFC3339Nano} {
		if at, err := time.Parse(layout, s.Time); err == nil {
			out.At = at
		}
	}
	return out
}
