{{- /* Labels of every object. */ -}}
{{- define "inferfleet-agent.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: inferfleet-agent
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: inferfleet
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- /* Labels of the Pods that never change: selectors are immutable. */ -}}
{{- define "inferfleet-agent.selector" -}}
app.kubernetes.io/name: inferfleet-agent
app.kubernetes.io/component: agent
{{- end -}}

{{- /* The gateway's flags, none when there is no gateway. Half of one is an error. */ -}}
{{- define "inferfleet-agent.gateway" -}}
{{- with .Values.gateway -}}
{{- if and .name (not .namespace) }}{{ fail "gateway.namespace: must be given with gateway.name" }}{{ end -}}
{{- if and .namespace (not .name) }}{{ fail "gateway.name: must be given with gateway.namespace" }}{{ end -}}
{{- if and .listener (not .name) }}{{ fail "gateway.listener: names a listener of the Gateway in gateway.name, which is empty" }}{{ end -}}
{{- if .name -}}
- --gateway-namespace={{ .namespace }}
- --gateway-name={{ .name }}
{{- if .listener }}
- --gateway-listener={{ .listener }}
{{- end }}
{{- end -}}
{{- end -}}
{{- end -}}
