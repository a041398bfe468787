{{/* What all objects of a release are found by. */}}
{{- define "fedq.selector" -}}
app.kubernetes.io/name: fedq
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "fedq.labels" -}}
{{ include "fedq.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* Where clients connect, in the name of the port. */}}
{{- define "fedq.amqp" -}}
{{- if .Values.clientTlsSecret -}} amqps {{- else -}} amqp {{- end -}}
{{- end }}
{{- define "fedq.amqpPort" -}}
{{- if .Values.clientTlsSecret -}} 5671 {{- else -}} 5672 {{- end -}}
{{- end }}
