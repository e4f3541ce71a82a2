package fit

// Op is the operator of a label requirement.
type Op string

const (
	In           Op = "In"
	NotIn        Op = "NotIn"
	Exists       Op = "Exists"
	DoesNotExist Op = "DoesNotExist"
	Gt           Op = "Gt"
	Lt           Op = "Lt"
)

// Requirement is one condition on a node's label, or on its name where it is among a term's Fields.
type Requirement struct {
	Key    string   `json:"key"`
	Op     Op       `json:"op"`
	Values []string `json:"values,omitempty"`
}

// Term is a conjunction. An empty term matches no node.
type Term struct {
	Labels []Requirement `json:"labels,omitempty"`
	Fields []Requirement `json:"fields,omitempty"` // on metadata.name alone, In or NotIn with one value
}

// Preference is a term that adds its weight, 1 to 100, to the nodes it matches.
type Preference struct {
	Weight int32 `json:"weight"`
	Term   Term  `json:"term"`
}

// Effect is what a taint does to pods that do not tolerate it.
type Effect string

const (
	NoSchedule       Effect = "NoSchedule"
	PreferNoSchedule Effect = "PreferNoSchedule"
	NoExecute        Effect = "NoExecute"
)

// Taint keeps pods off a node.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect Effect `json:"effect"`
}

// Toleration lets a pod onto tainted nodes. Op is "Equal" (also when empty), "Exists", or "Lt" or "Gt" for taints
// whose value is a number below or above Value; an empty key with Exists tolerates everything, an empty effect
// every effect.
type Toleration struct {
	Key    string `json:"key,omitempty"`
	Op     string `json:"op,omitempty"`
	Value  string `json:"value,omitempty"`
	Effect Effect `json:"effect,omitempty"`
}

// Exclusive is the protocol of a Port that is none: one pod at a time on a node has what its IP says in words.
const Exclusive = "exclusive"

// Port is a port of the node that a pod takes. An empty IP is 0.0.0.0, an empty protocol TCP.
type Port struct {
	IP       string `json:"ip,omitempty"`
	Protocol string `json:"protocol,omitempty"`
	Port     int32  `json:"port"`
}
