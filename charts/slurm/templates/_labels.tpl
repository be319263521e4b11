{{- define "slurm.labels" -}}
app.kubernetes.io/name: slurm
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/part-of: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- /* The passwords that directories have in the values, as JSON: a list of {name, password, index}, whose name is that of the
Secret. `sunk render` (render/values.py) does the same. */ -}}
{{- define "slurm.passwords" -}}
{{- $found := list }}
{{- range $index, $directory := (.Values.directoryService | default dict).directories | default list }}
{{- $user := ($directory | default dict).user | default dict }}
{{- with $user.password }}
{{- if $user.passwordSecret }}
{{- fail (printf "directoryService.directories[%d].user: password and passwordSecret exclude each other: set only one of them" $index) }}
{{- end }}
{{- $found = append $found (dict "index" $index "name" (printf "%s-directory-%d" $.Release.Name $index) "password" .) }}
{{- end }}
{{- end }}
{{- toJson $found }}
{{- end }}
