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

{{/* How the others reach a node, by its number. */}}
{{- define "fedq.peer" -}}
{{- $name := (index . 0).Release.Name -}}
{{ $name }}-{{ index . 1 }}.{{ $name }}-peers:15681
{{- end }}

{{/* What all nodes have alike. What differs comes from the environment (docs/adr/0105). */}}
{{- define "fedq.configuration" -}}
node: ${FEDQ_NODE_NAME}
data: /var/lib/fedq/data
zone: ${FEDQ_ZONE}
amqp:
  listen:
    - host: 0.0.0.0
      port: {{ include "fedq.amqpPort" . }}
      {{- if .Values.clientTlsSecret }}
      tls:
        certificate: /etc/fedq/client-tls/tls.crt
        key: /etc/fedq/client-tls/tls.key
      {{- end }}
  advertise: ${FEDQ_NODE_NAME}.{{ .Release.Name }}-peers.${FEDQ_NAMESPACE}.svc:{{ include "fedq.amqpPort" . }}
certificates:
  authority: /etc/fedq/certificates/ca.pem
  certificate: /etc/fedq/certificates/${FEDQ_NODE_NAME}.pem
  key: /etc/fedq/certificates/${FEDQ_NODE_NAME}.key
{{- if .Values.http }}
http:
  host: 0.0.0.0
  port: 15672
  {{- if .Values.clientTlsSecret }}
  tls:
    certificate: /etc/fedq/client-tls/tls.crt
    key: /etc/fedq/client-tls/tls.key
  {{- end }}
{{- end }}
metrics:
  host: 0.0.0.0
  port: 15691
users:
  {{- range .Values.users }}
  {{ . }}: {password_file: /etc/fedq/users/{{ . }}}
  {{- end }}
{{- with .Values.limits }}
limits:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.timing }}
timing:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
