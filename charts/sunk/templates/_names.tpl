{{- /* Of the Deployment, the Lease, and all that is made once per namespace. */ -}}
{{- define "sunk.name" -}}
sunk-controller-manager
{{- end }}

{{- /* Of what lives in no namespace: a second operator elsewhere must not meet it. */ -}}
{{- define "sunk.clusterName" -}}
sunk-controller-manager-{{ .Release.Namespace }}
{{- end }}

{{- /* The namespaces that are looked after, by commas; empty for all of them. */ -}}
{{- define "sunk.namespaces" -}}
{{- if and .Values.allNamespaces .Values.namespaces -}}
{{- fail (printf "allNamespaces is true but namespaces lists %s: set only one of them" (join ", " .Values.namespaces)) -}}
{{- else if not .Values.allNamespaces -}}
{{- join "," (default (list .Release.Namespace) .Values.namespaces) -}}
{{- end -}}
{{- end }}

{{- define "sunk.selector" -}}
app.kubernetes.io/name: sunk
app.kubernetes.io/component: controller-manager
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sunk.labels" -}}
{{ include "sunk.selector" . }}
app.kubernetes.io/part-of: sunk
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "sunk.image" -}}
{{- $image := .Values.image -}}
{{- if contains "@" $image.repository }}{{ $image.repository }}
{{- else if $image.digest }}{{ $image.repository }}@{{ $image.digest }}
{{- else }}{{ $image.repository }}:{{ $image.tag }}
{{- end }}
{{- end }}

{{- /* What is granted where our objects and the Pods of their nodes are: in our namespaces, or everywhere.

No `escalate` and no `bind`: it grants others nothing that it does not have itself. */ -}}
{{- define "sunk.rules" -}}
- apiGroups: [sunk.coreweave.com]
  resources: [slurmclusters]
  verbs: [get, list, watch, patch]
- apiGroups: [sunk.coreweave.com]
  resources: [nodesets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [sunk.coreweave.com]
  resources: [slurmclusters/status, nodesets/status]
  verbs: [patch]
# An owner reference that holds up the owner's deletion needs this where the API server enforces it.
- apiGroups: [sunk.coreweave.com]
  resources: [slurmclusters/finalizers, nodesets/finalizers]
  verbs: [update]
# What a Slurm cluster is made of.
- apiGroups: [apps]
  resources: [deployments, statefulsets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, create, patch, delete]
# Those with the reports of directory agents are followed.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, patch, delete]
# An eviction of a compute Pod that may hold a job is refused by a budget.
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, create, patch, delete]
# Each Slurm cluster has a syncer and, if it has directories, a directory agent. Each has an account of its own, which gets
# what it needs in its namespace and no more.
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [get, list, create, patch, delete]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [get, list, create, patch, delete]
# Who grants something must hold it: what syncers are granted beyond the operator's own needs.
- apiGroups: [""]
  resources: [pods/status]
  verbs: [patch]
- apiGroups: [sunk.coreweave.com]
  resources: [nodeslices/status]
  verbs: [patch]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create, get, patch]
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, create, patch]
# Keys and passwords are made once, and neither read, changed nor deleted: those of others are none of our business.
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
- apiGroups: [sunk.coreweave.com]
  resources: [nodeslices]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [controllerrevisions]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [create, patch, delete]
{{ include "sunk.eventRules" . }}
{{- end }}

{{- define "sunk.eventRules" -}}
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}

{{- /* Binds a role to the operator: dict root, kind, role. */ -}}
{{- define "sunk.bind" -}}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .role }}
subjects:
  - kind: ServiceAccount
    name: {{ .root.Values.serviceAccount.name }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}

{{- /* Whether this Kubernetes has admission policies. Asked by its version: `helm template` without a cluster knows no kinds,
and would leave them out in silence. */ -}}
{{- define "sunk.hasPolicies" -}}
{{- if semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version }}true{{ end }}
{{- end }}

{{- /* The head of a policy for what syncers write, by the name that their accounts have; more variables may follow.
The name is ACCOUNT_SUFFIX of src/sunk/model/contract/syncerwrites.py, and rare: in these namespaces are accounts of others too. */ -}}
{{- define "sunk.bySyncers" -}}
failurePolicy: Fail
matchConditions:
  - name: by-a-syncer
    expression: >-
      request.userInfo.username.startsWith('system:serviceaccount:' + request.namespace + ':')
      && request.userInfo.username.endsWith('-sunk-syncer')
variables:
  - name: account
    expression: request.userInfo.username.split(':')[3]
  - name: cluster
    expression: variables.account.substring(0, variables.account.size() - '-sunk-syncer'.size())
{{- end }}
