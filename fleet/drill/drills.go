package drill

// patch is a JSON patch of the scene's Deployment, as a command.
func patch(ops string) string {
	return "kubectl -n drill patch deployment {{.Work}} --type=json -p '[" + ops + "]'"
}

const (
	remove    = `{"op":"remove","path":"/spec/template/spec/`
	container = "/spec/template/spec/containers/0/"
	why       = "Ask `berth why deployment/{{.Work}} -n drill`."
)

// moves is how work leaves a node that cannot be mended.
const moves = `kubectl cordon {{.Node}}
kubectl -n drill delete pods -l app={{.Work}} --force --grace-period=0`

func onNode(kind, more string) string {
	return `apiVersion: berth.dev/v1alpha1
kind: Fault
metadata: {name: drill-` + kind + `, labels: {drill: "true"}}
spec: {type: ` + kind + `, node: {{.Node}}` + more + `}
`
}

func onPool(kind, more string) string {
	return `apiVersion: berth.dev/v1alpha1
kind: Fault
metadata: {name: drill-` + kind + `, labels: {drill: "true"}}
spec: {type: ` + kind + `, pool: {{.Pool}}` + more + `}
`
}

const plain = `{{work "" ""}}`

const onPoolWork = `{{work (printf "nodeSelector: {berth.dev/pool: %s}" .Pool) ""}}`

// drills are in the order in which they were written. Each is short: one cause, and one mend of a few commands.
var drills = []Drill{
	{Name: "label-typo", Report: "We moved to the new GPUs, and now our service does not start.",
		incident: `{{work (printf "nodeSelector: {berth.dev/pool: %sx}" .Pool) ""}}`,
		hints:    []string{"Look at the events of the pods: which nodes did the scheduler look at?", why, "Compare the pods' nodeSelector with `kubectl get nodes --show-labels`."},
		mend:     patch(remove + `nodeSelector"}`)},
	{Name: "too-large", Report: "I asked for more GPUs, and since then nothing runs.",
		incident: `{{work "" "resources: {limits: {nvidia.com/gpu: 1000}}"}}`,
		hints:    []string{"Waiting would not help. Why?", why, "How many GPUs has the largest node?"},
		mend:     patch(`{"op":"replace","path":"` + container + `resources","value":{"limits":{"nvidia.com/gpu":"{{.GPUs}}"}}}`)},
	{Name: "image-typo", Report: "The release went out an hour ago and nobody sees it.",
		incident: `{{work "" (printf "image: registry.example/%s:does-not-exist-%d" .Team .Number)}}`,
		hints:    []string{"The pods have nodes. What do their containers wait for?", why, "Which tag was meant? Any that exists will do: {{.Number}}."},
		mend:     "kubectl -n drill set image deployment/{{.Work}} main=registry.example/{{.Team}}:{{.Number}}"},
	{Name: "config-missing", Report: "It runs in staging. Here the pods stay at CreateContainerConfigError.",
		incident: `{{work "" (printf "envFrom: [{configMapRef: {name: settings-%s}}]" .Team)}}`,
		hints:    []string{"What does the container need before it starts?", why},
		mend:     "kubectl -n drill create configmap settings-{{.Team}} --from-literal=mode=fast"},
	{Name: "secret-missing", Report: "Pods hang in ContainerCreating.",
		incident: `{{work (printf "volumes: [{name: key, secret: {secretName: key-%s}}]" .Team) "volumeMounts: [{name: key, mountPath: /key}]"}}`,
		hints:    []string{"`kubectl -n drill describe pods` shows which volume does not come.", why},
		mend:     "kubectl -n drill create secret generic key-{{.Team}} --from-literal=token=abc"},
	{Name: "claim-missing", Report: "Pods are Pending, and there are GPUs free. What else does it want?",
		incident: `{{work (printf "volumes: [{name: data, persistentVolumeClaim: {claimName: data-%s}}]" .Team) "volumeMounts: [{name: data, mountPath: /data}]"}}`,
		hints:    []string{"The scheduler's message does not speak of GPUs.", why, "The claim does not exist. Make it, or do without."},
		mend:     patch(remove + `volumes"},{"op":"remove","path":"` + container + `volumeMounts"}`)},
	{Name: "quota", Report: "My Deployment has no pods at all. There is not even a Pending one.",
		incident: `apiVersion: v1
kind: ResourceQuota
metadata: {name: gpus, namespace: drill}
spec: {hard: {requests.nvidia.com/gpu: 0}}
---
` + plain,
		hints: []string{"Who makes the pods of a Deployment? Look at the events of the ReplicaSet.", why, "`kubectl -n drill describe resourcequota`"},
		mend:  `kubectl -n drill patch resourcequota gpus -p '{"spec":{"hard":{"requests.nvidia.com/gpu":"16"}}}'`},
	{Name: "service-account", Report: "No pods, and the quota is fine.",
		incident: `{{work (printf "serviceAccountName: %s-bot" .Team) ""}}`,
		hints:    []string{"The events of the ReplicaSet say who refuses.", why},
		mend:     "kubectl -n drill create serviceaccount {{.Team}}-bot\nkubectl -n drill delete replicasets --all"},
	{Name: "priority-class", Report: "We marked it as urgent, and now it is gone.",
		incident: `{{work (printf "priorityClassName: urgent-%d" .Number) ""}}`,
		hints:    []string{"The events of the ReplicaSet say who refuses.", why, "`kubectl get priorityclasses`"},
		mend:     patch(remove + `priorityClassName"}`)},
	{Name: "crash", Report: "It restarts all the time.",
		incident: `{{work "" (printf "command: [sh, -c, 'echo no such option: --fast; exit %d']" .Number)}}`,
		hints:    []string{"How did the container end? See its last state and its log.", why},
		mend:     patch(`{"op":"replace","path":"` + container + `command","value":["python","main.py"]}`)},
	{Name: "cuda", Report: "The new image does not start: RunContainerError, and a long text.",
		incident: `{{work "" (printf "env: [{name: NVIDIA_REQUIRE_CUDA, value: 'cuda>=2%d.0'}]" .Number)}}`,
		hints:    []string{"Read the end of the message of the container's state.", why, "Which CUDA does the node's driver run? See its label nvidia.com/cuda.runtime-version.full."},
		mend:     "kubectl -n drill set env deployment/{{.Work}} NVIDIA_REQUIRE_CUDA-"},
	{Name: "probe", Report: "The pods run, and the service has no endpoints.",
		incident: `{{work "" (printf "ports: [{containerPort: 8000}]\nreadinessProbe: {httpGet: {path: /, port: 808%d}, periodSeconds: 1}" .Number)}}`,
		hints:    []string{"Running is not ready. Who decides that?", why, "On which port does it listen?"},
		mend:     patch(`{"op":"replace","path":"` + container + `readinessProbe/httpGet/port","value":8000}`)},
	{Name: "scheduler", Report: "Pending for an hour, and there is no event at all.",
		incident: `{{work (printf "schedulerName: gpu-scheduler-%d" .Number) ""}}`,
		hints:    []string{"Who should have written an event?", why},
		mend:     patch(`{"op":"replace","path":"/spec/template/spec/schedulerName","value":"default-scheduler"}`)},
	{Name: "spread", Report: "One of our pods runs, the others stay Pending.",
		incident: "{{work (printf `nodeSelector: {berth.dev/pool: %s}\naffinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: berth.dev/pool, labelSelector: {matchLabels: {app: %s}}}]}}` .Pool .Work) ``}}",
		hints:    []string{"What do the pods want of each other?", why, "How many values has the topologyKey?", "A rule of a pod that runs holds for those that come: a roll-out waits for it."},
		mend:     patch(remove+`affinity"}`) + "\nkubectl -n drill delete replicasets --all"},
	{Name: "quarantine", Report: "The new GPUs are idle, and my pods do not get them.",
		incident: onPool("quarantine", ", condition: {type: GpuThermalMarginWatch, status: \"True\"}") + "---\n" + onPoolWork,
		hints:    []string{"Look at the nodes of the pool.", why, "Who took the nodes out, and why? Read their conditions. For a drill the repair is done: let them in again."},
		mend:     "kubectl uncordon -l berth.dev/pool={{.Pool}}"},
	{Name: "startup-taint", Report: "The nodes are Ready and empty, and nothing is scheduled there.",
		incident: onPool("startup-taint-stays", ", taint: startup.{{.Team}}.example/agent") + "---\n" + onPoolWork,
		hints:    []string{"What do the nodes have that the pods do not tolerate?", why, "The agent that removes the taint is gone. For a drill the node is fit: remove the taint yourself."},
		mend:     "kubectl taint nodes -l berth.dev/pool={{.Pool}} startup.{{.Team}}.example/agent-"},
	{Name: "driver", Report: "All GPUs of the pool are gone since last night.",
		incident: onPool("driver-crash", "") + "---\n" + onPoolWork, leave: true,
		hints: []string{"How many GPUs do the nodes offer, and how many have they?", why, "Look at the pods in gpu-operator and their logs. You cannot mend the driver now: let the work run elsewhere."},
		mend:  patch(remove + `nodeSelector"}`)},
	{Name: "plugin", Report: "Since the update the scheduler says Insufficient nvidia.com/gpu.",
		incident: onPool("plugin-crash", "") + "---\n" + onPoolWork, leave: true,
		hints: []string{"Capacity and allocatable of the nodes differ.", why, "The device plugin's log says why it ends. You cannot mend it now: let the work run elsewhere."},
		mend:  patch(remove + `nodeSelector"}`)},
	{Name: "bad-gpu", Report: "It ran for weeks, and now it crashes: CUDA error.", before: plain,
		incident: onNode("ecc", ", gpuCount: 64"), leave: true,
		hints: []string{"Which GPUs does it have, and are they well? See the logs, and `dmesg` in the driver's pod of that node.", why, "A container that restarts has its GPUs again. A new pod gets others; keep it from the node."},
		mend:  moves},
	{Name: "node-lost", Report: "It does not answer any more, and kubectl logs hangs or fails.", before: plain,
		incident: onNode("node-down", ""), leave: true,
		hints: []string{"Does the node still renew its lease? `kubectl -n kube-node-lease get lease NODE -o yaml`", why, "Kubernetes would move the pods after five minutes. You may be quicker: keep new pods from the node, and delete these with force."},
		mend:  moves},
	{Name: "partition", Report: "Nothing changed, but nobody reaches it any more.", before: plain,
		incident: onNode("node-partitioned", ""), leave: true,
		hints: []string{"Look at the node: since when has its kubelet said nothing?", why, "Its containers may still run, so two of them may write to the same place. If that is no harm: keep new pods from the node, and delete these with force."},
		mend:  moves},
}
